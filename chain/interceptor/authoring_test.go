package interceptor_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// limits is a struct with dependencies whose methods are handlers.
type limits struct{ max int }

type toolCall struct {
	Name      string                 `json:"name"`
	Arguments map[string]jsonx.Value `json:"arguments,omitempty"`
	Rest      map[string]jsonx.Value `json:",embed"`
}

type limitConfig struct {
	Max  int    `json:"max,omitzero"`
	Mode string `json:"mode,omitzero"`
}

func (l *limits) validate(_ context.Context, _ *call, p *toolCall, c *limitConfig) (verdict, error) {
	limit := l.max
	if c.Max > 0 {
		limit = c.Max
	}
	switch {
	case len(p.Arguments) <= limit:
		return interceptor.Pass(), nil
	case c.Mode == "warn":
		return interceptor.Warn("many arguments"), nil
	}
	return interceptor.Deny("too many arguments"), nil
}

func (l *limits) trim(_ context.Context, _ *call, p *toolCall, _ *limitConfig) (bool, error) {
	modified := len(p.Arguments) > l.max
	p.Arguments = nil
	return modified, nil
}

func (l *limits) count(_ context.Context, _ *call, p *toolCall, c *limitConfig) (receipt, error) {
	r := interceptor.Recorded()
	r.Metrics = map[string]float64{"arguments": float64(len(p.Arguments)), "max": float64(c.Max)}
	return r, nil
}

func serve(tb testing.TB, list ...interceptor.Interceptor) *interceptor.Server {
	tb.Helper()
	server, err := interceptor.New(nil, list...)
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

// invoke returns the result without its duration, or code and data of the error.
func invoke(tb testing.TB, server *interceptor.Server, params string) string {
	tb.Helper()
	got, err := server.Invoke(tb.Context(), jsonx.Value(params))
	if e, ok := errors.AsType[*wire.RPCError](err); ok {
		return e.Message + " " + string(e.Data)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Replace(timeless(string(got)), `,"durationMs":0`, "", 1)
}

func TestAuthoring(t *testing.T) {
	t.Parallel()
	l := &limits{max: 1}
	hooks := interceptor.OnRequest(interceptor.EventToolsCall)
	server := serve(t,
		interceptor.ConfiguredValidator(interceptor.Descriptor{Name: "v", Hooks: hooks}, l.validate),
		interceptor.ConfiguredMutator(interceptor.Descriptor{Name: "m", Hooks: hooks}, l.trim),
		interceptor.ConfiguredSink(interceptor.Descriptor{Name: "s", Hooks: hooks, DefaultConfig: jsonx.Value(`{"max":9}`)}, l.count),
		interceptor.TypedSink(interceptor.Descriptor{Name: "ts", Hooks: hooks}, func(_ context.Context, _ *call, p *toolCall) (receipt, error) {
			return receipt{Recorded: p.Name == "a"}, nil
		}),
		interceptor.ConfiguredValidator(interceptor.Descriptor{Name: "raw", Hooks: hooks},
			func(_ context.Context, _ *call, p *jsonx.Value, _ *struct{}) (verdict, error) {
				return interceptor.Deny(string(*p)), nil
			}),
		interceptor.ValidatorBool(interceptor.Descriptor{Name: "b", Hooks: hooks}, func(_ context.Context, c *call) (bool, error) {
			return len(c.Payload) > 2, nil
		}),
		interceptor.Mutator(interceptor.Descriptor{Name: "mod", Hooks: hooks}, func(context.Context, *call) (mutation, error) {
			return interceptor.Modified(jsonx.Value(`[1]`)), nil
		}),
	)
	const two = `,"event":"tools/call","phase":"request","payload":{"name":"a","arguments":{"x":12345678901234567890,"y":2},"z":1.0}`
	for _, tt := range []struct{ name, rest, want string }{
		{"v", two, `{"type":"validation","interceptor":"v","phase":"request","valid":false,"severity":"error","messages":[{"message":"too many arguments","severity":"error"}]}`},
		{"v", two + `,"config":{"max":2}`, `{"type":"validation","interceptor":"v","phase":"request","valid":true}`},
		{"v", two + `,"config":{"mode":"warn"}`, `{"type":"validation","interceptor":"v","phase":"request","valid":false,"severity":"warn","messages":[{"message":"many arguments","severity":"warn"}]}`},
		{"m", two, `{"type":"mutation","interceptor":"m","phase":"request","modified":true,"payload":{"name":"a","z":1.0}}`},
		{"s", two, `{"type":"sink","interceptor":"s","phase":"request","recorded":true,"metrics":{"arguments":2,"max":9}}`},
		{"ts", two, `{"type":"sink","interceptor":"ts","phase":"request","recorded":true}`},
		{"raw", `,"event":"tools/call","phase":"request","payload":[1.0]`, `{"type":"validation","interceptor":"raw","phase":"request","valid":false,"severity":"error","messages":[{"message":"[1.0]","severity":"error"}]}`},
		{"b", two, `{"type":"validation","interceptor":"b","phase":"request","valid":true}`},
		{"b", `,"event":"tools/call","phase":"request","payload":{}`, `{"type":"validation","interceptor":"b","phase":"request","valid":false,"severity":"error","messages":[{"message":"denied by b","severity":"error"}]}`},
		{"mod", two, `{"type":"mutation","interceptor":"mod","phase":"request","modified":true,"payload":[1]}`},
		{"v", two + `,"config":{"max":"2"}`, `Invalid params: config does not match configSchema {"interceptor":"v","path":"config.max","reason":"type: 2 has type \"string\", want \"integer\""}`},
		{"v", two + `,"config":{"other":1}`, `Invalid params: config does not match configSchema {"interceptor":"v","path":"config","reason":"unexpected additional properties [\"other\"]"}`},
		{"v", two + `,"config":[]`, `Invalid params: config does not match configSchema {"interceptor":"v","path":"config","reason":"is not an object"}`},
		{"v", `,"event":"tools/call","phase":"request","payload":7`, ``},
	} {
		got := invoke(t, server, `{"name":"`+tt.name+`"`+tt.rest+`}`)
		if tt.want == "" {
			if !strings.HasPrefix(got, "Interceptor execution failed") {
				t.Errorf("%s%s: %s", tt.name, tt.rest, got)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s%s (-want +got):\n%s", tt.name, tt.rest, diff)
		}
	}
}

// echo denies with the config that it got.
func echo(schema, fallback string) interceptor.Interceptor {
	d := on("e")
	if schema != "" {
		d.ConfigSchema = jsonx.Value(schema)
	}
	if fallback != "" {
		d.DefaultConfig = jsonx.Value(fallback)
	}
	return interceptor.Validator(d, func(_ context.Context, c *call) (verdict, error) {
		return interceptor.Deny(string(c.Config)), nil
	})
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{
		"level":{"type":"string","enum":["low","high"],"default":"low"},
		"big":{"type":"integer"},
		"deep":{"type":"object","properties":{"n":{"type":"integer","default":12345678901234567890}}},
		"list":{"type":"array","items":{"type":"object","properties":{"a/b":{"type":"string"}}}}}}`
	for _, tt := range []struct{ name, schema, fallback, config, want string }{
		{"nothing", "", "", "", ""},
		{"any config without a schema", "", "", `"x"`, `"x"`},
		{"server default", "", `{"a":1}`, "", `{"a":1}`},
		{"server default for null", "", `{"a":1}`, "null", `{"a":1}`},
		{"sent in place of the server default", "", `{"a":1}`, `{"b":2}`, `{"b":2}`},
		{"schema default", schema, "", "", `{"level":"low"}`},
		{"schema and server default", schema, `{"big":1}`, "", `{"level":"low","big":1}`},
		{"bytes stay", schema, "", `{ "big" : 12345678901234567890}`, `{"level":"low", "big" : 12345678901234567890}`},
		{"deep", schema, "", `{"level":"high","deep":{}}`, `{"level":"high","deep":{"n":12345678901234567890}}`},
		{"schema without defaults", `{"type":"object"}`, "", "", ""},
		{"enum", schema, "", `{"level":"x"}`, `config.level: enum: x does not equal any of: [low high]`},
		{"array", schema, "", `{"list":[{"a/b":1}]}`, `config.list[].a/b: type: 1 has type "integer", want "string"`},
		{"required and none sent", `{"type":"object","required":["a"]}`, "", "", `config: required: missing properties: ["a"]`},
	} {
		server := serve(t, echo(tt.schema, tt.fallback))
		for range 2 { // the second time from what is remembered
			params := `{"name":"e","event":"tools/call","phase":"request","payload":{}`
			if tt.config != "" {
				params += `,"config":` + tt.config
			}
			got, err := server.Invoke(t.Context(), jsonx.Value(params+"}"))
			said := ""
			if e, ok := errors.AsType[*wire.RPCError](err); ok {
				path, _ := wire.MemberString(e.Data, "path")
				reason, _ := wire.MemberString(e.Data, "reason")
				if said = path + ": " + reason; e.Code != wire.CodeInvalidParams {
					t.Errorf("%s: code %d", tt.name, e.Code)
				}
			} else {
				messages, _ := wire.Member(got, "messages")
				for m := range jsonx.Elements(messages) {
					said, _ = wire.MemberString(m, "message")
				}
			}
			if diff := cmp.Diff(tt.want, said); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
		}
	}
}

func TestNewTellsThePlace(t *testing.T) {
	t.Parallel()
	schema := func(s string) interceptor.Interceptor { return echo(s, "") }
	hooked := func(hooks ...schemas.Hook) interceptor.Interceptor {
		return interceptor.ValidatorBool(interceptor.Descriptor{Name: "e", Hooks: hooks}, func(context.Context, *call) (bool, error) { return true, nil })
	}
	compat := func(from, to string) interceptor.Interceptor {
		i := echo("", "")
		i.Descriptor.Compat = &interceptor.Compat{MinProtocol: from, MaxProtocol: to}
		return i
	}
	for _, tt := range []struct {
		i    interceptor.Interceptor
		want string
	}{
		{schema(`{"type":"string"}`), `configSchema: type is not "object"`},
		{schema(`{"type":"object","$ref":"#"}`), `configSchema: schema cannot be used: it refers to itself without end`},
		{schema(`{"type":"object","$REF":"#"}`), `configSchema: schema cannot be used: "$REF" at # is no keyword: write $ref`},
		{schema(`{`), `configSchema is not a strict JSON object`},
		{schema(`{"type":"object","type":"object"}`), `configSchema is not a strict JSON object`},
		{schema(`{"type":"object","properties":{"a":{"type":"strng"}}}`), `configSchema.properties.a.type: not a type`},
		{schema(`{"type":"object","properties":{"a":{"items":{"pattern":"("}}}}`), `configSchema.properties.a.items.pattern: error parsing`},
		{schema(`{"type":"object","patternProperties":{"(":true}}`), `configSchema.patternProperties: error parsing`},
		{schema(`{"type":"object","allOf":[true,{"minLength":-1}]}`), `configSchema.allOf[1].minLength: not a whole number`},
		{schema(`{"type":"object","anyOf":{}}`), `configSchema.anyOf: not an array`},
		{schema(`{"type":"object","required":["a",1]}`), `configSchema.required: not an array of names`},
		{schema(`{"type":"object","properties":{"a":1}}`), `configSchema.properties.a: a schema is`},
		{schema(`{"type":"object","$ref":"#/$defs/none"}`), `configSchema: `},
		{schema(`{"type":"object","properties":{"a":{"$ref":"https://example.org/a"}}}`), `configSchema: `},
		{schema(`{"type":"object","$schema":"https://json-schema.org/draft/1999/schema"}`), `configSchema: `},
		{schema(`{"type":"object","properties":{"a":{"type":"string","default":1}}}`), `configSchema: `},
		{echo(`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":1}`), `default config: config.a: type`},
		{echo("", `[]`), `default config is not a JSON object`},
		{hooked(schemas.Hook{Events: []string{"a"}}, schemas.Hook{Events: []string{"b", ""}}), `hooks[2].events[1]`},
		{hooked(schemas.Hook{Events: []string{"a\n"}}), `hooks[0].events[0]`},
		{compat("soon", ""), `compat.minProtocol "soon"`},
		{compat("2025-06-18", "2025-03-26"), `compat.maxProtocol "2025-03-26"`},
	} {
		_, err := interceptor.New(nil, tt.i)
		if !errors.Is(err, interceptor.ErrDescriptor) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New: %v, want %s", err, tt.want)
		}
	}
	type odd struct{ C chan int }
	_, err := interceptor.New(nil, interceptor.ConfiguredValidator(on("e"),
		func(context.Context, *call, *jsonx.Value, *odd) (verdict, error) { return verdict{}, nil }))
	if err == nil || !strings.Contains(err.Error(), "infer configSchema") {
		t.Errorf("New: %v, want a fault of the inferred schema", err)
	}
}

// A hook without a phase means both, and so does the older spelling.
func TestHookWithoutAPhase(t *testing.T) {
	t.Parallel()
	for _, phase := range []schemas.Phase{"", "both"} {
		server := serve(t, interceptor.ValidatorBool(interceptor.Descriptor{Name: "e", Hooks: []schemas.Hook{{Events: []string{"x/y"}, Phase: phase}}},
			func(context.Context, *call) (bool, error) { return true, nil }))
		list, err := server.List(t.Context(), nil)
		want := `{"interceptors":[{"name":"e","type":"validation","hooks":[{"events":["x/y"],"phase":"request"},{"events":["x/y"],"phase":"response"}]}]}`
		if err != nil || string(list) != want {
			t.Errorf("list: %s, %v; want %s", list, err, want)
		}
		for _, p := range []string{"request", "response"} {
			if got := invoke(t, server, `{"name":"e","event":"x/y","phase":"`+p+`","payload":{}}`); !strings.Contains(got, `"valid":true`) {
				t.Errorf("%s: %s", p, got)
			}
		}
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	var list []interceptor.Interceptor
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		d := interceptor.Descriptor{Name: name, Hooks: interceptor.OnRequest("tools/*")}
		if name == "b" || name == "e" {
			d.Hooks = interceptor.OnRequest(interceptor.EventPromptsGet)
		}
		list = append(list, interceptor.ValidatorBool(d, func(context.Context, *call) (bool, error) { return true, nil }))
	}
	server, err := interceptor.New(&interceptor.Options{PageSize: 2}, list...)
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]string{"": "ab|cd|e", `"event":"tools/call"`: "ac|d", `"event":"prompts/get"`: "be", `"event":"roots/list"`: ""} {
		var pages []string
		cursor := ""
		for range 10 {
			params := "{" + filter
			if cursor != "" {
				if filter != "" {
					params += ","
				}
				params += `"cursor":"` + cursor + `"`
			}
			page, err := server.List(t.Context(), jsonx.Value(params+"}"))
			if err != nil {
				t.Fatal(err)
			}
			found, _ := wire.Member(page, "interceptors")
			var names strings.Builder
			for d := range jsonx.Elements(found) {
				name, _ := wire.MemberString(d, "name")
				names.WriteString(name)
			}
			pages = append(pages, names.String())
			if cursor, _ = wire.MemberString(page, "nextCursor"); cursor == "" {
				break
			}
		}
		if got := strings.Join(pages, "|"); got != want {
			t.Errorf("%s: pages are %s, want %s", filter, got, want)
		}
	}
}

// What HTTP middleware puts into the context reaches the handler, and so do the headers.
func TestRequestValuesOverHTTP(t *testing.T) {
	t.Parallel()
	type tenant struct{}
	server := serve(t, interceptor.Validator(on("e"), func(ctx context.Context, _ *call) (verdict, error) {
		name, _ := ctx.Value(tenant{}).(string)
		r := interceptor.RequestOf(ctx)
		if r.Session != nil || r.Token != nil {
			return verdict{}, errors.New("session or token out of nowhere")
		}
		return interceptor.Deny(name + " " + r.Header.Get("X-Via")), nil
	}))
	inner := server.HTTPHandler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenant{}, "acme")))
	}))
	t.Cleanup(web.Close)
	body := `{"jsonrpc":"2.0","id":1,"method":"interceptor/invoke","params":` + string(params("e", "")) + `}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Via", "here")
	resp, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := resp.Write(&out); err != nil || !strings.Contains(out.String(), `"message":"acme here"`) {
		t.Errorf("answer is %s, %v", out.String(), err)
	}
	_ = resp.Body.Close()
	if r := interceptor.RequestOf(t.Context()); r.Header != nil || r.Session != nil {
		t.Errorf("a request out of nowhere: %v", r)
	}
}
