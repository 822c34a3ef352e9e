package interceptor_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// childMode tells the test binary to be a stdio server instead of running tests.
const childMode = "INTERCEPTOR_TEST_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childMode); kind != "" {
		os.Exit(runChild(kind))
	}
	goleak.VerifyTestMain(m)
}

type (
	call     = interceptor.Call
	verdict  = interceptor.Verdict
	mutation = interceptor.Mutation
	receipt  = interceptor.Receipt
)

func on(name string) interceptor.Descriptor {
	return interceptor.Descriptor{Name: name, Hooks: interceptor.Both("tools/call")}
}

// zoo serves one interceptor of every temper.
func zoo() []interceptor.Interceptor {
	validator := func(name string, f interceptor.ValidatorFunc) interceptor.Interceptor {
		return interceptor.Validator(on(name), f)
	}
	mutator := func(name string, f interceptor.MutatorFunc) interceptor.Interceptor {
		return interceptor.Mutator(on(name), f)
	}
	mutated := func(payload string) interceptor.MutatorFunc {
		return func(context.Context, *call) (mutation, error) {
			return mutation{Modified: true, Payload: jsonx.Value(payload)}, nil
		}
	}
	return []interceptor.Interceptor{
		validator("pass", func(context.Context, *call) (verdict, error) { return interceptor.Pass(), nil }),
		validator("bare denial", func(context.Context, *call) (verdict, error) { return verdict{}, nil }),
		validator("warn", func(context.Context, *call) (verdict, error) {
			return verdict{
				Severity: schemas.SeverityWarn, Messages: []interceptor.Message{{Path: "a.b", Message: `say "hi"`}},
				Suggestions: []interceptor.Suggestion{{Path: "a", Value: jsonx.Value("12345678901234567890")}},
				Info:        jsonx.Value(`{"rule":7}`),
			}, nil
		}),
		validator("error", func(context.Context, *call) (verdict, error) { return verdict{}, errors.New("no luck") }),
		validator("long error", func(context.Context, *call) (verdict, error) {
			return verdict{}, errors.New(strings.Repeat("é", 1000))
		}),
		validator("panic", func(context.Context, *call) (verdict, error) { panic("secret") }),
		validator("bad info", func(context.Context, *call) (verdict, error) { return verdict{Info: jsonx.Value(`[`)}, nil }),
		validator("bad suggestion", func(context.Context, *call) (verdict, error) {
			return verdict{Suggestions: []interceptor.Suggestion{{}}}, nil
		}),
		validator("hang", func(ctx context.Context, _ *call) (verdict, error) { <-ctx.Done(); return verdict{}, ctx.Err() }),
		validator("deaf", func(context.Context, *call) (verdict, error) { time.Sleep(time.Hour); return verdict{}, nil }),
		interceptor.Validator(interceptor.Descriptor{
			Name: "strict", Hooks: interceptor.Both("tools/call"),
			ConfigSchema: jsonx.Value(`{"type":"object","properties":{"level":{"enum":["low","high"]}}}`),
		}, func(context.Context, *call) (verdict, error) { return interceptor.Pass(), nil }),
		mutator("same", func(context.Context, *call) (mutation, error) { return interceptor.Unmodified(), nil }),
		mutator("other", mutated(`{"n":12345678901234567890,"s":"\ud83d"}`)),
		mutator("no payload", mutated(``)),
		mutator("bad payload", mutated(`{"a":1,"a":2}`)),
		interceptor.Sink(interceptor.Descriptor{Name: "sink", Hooks: interceptor.OnResponse("*")},
			func(_ context.Context, c *call) (receipt, error) {
				return receipt{Recorded: true, Metrics: map[string]float64{"b": 2.5, "a": float64(len(c.Payload))}}, nil
			}),
		interceptor.Sink(interceptor.Descriptor{Name: "odd sink", Hooks: interceptor.OnResponse("*")},
			func(context.Context, *call) (receipt, error) {
				return receipt{Metrics: map[string]float64{"b": math.NaN()}}, nil
			}),
	}
}

func newZoo(tb testing.TB, opts *interceptor.Options) *interceptor.Server {
	tb.Helper()
	if opts == nil {
		opts = &interceptor.Options{}
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	server, err := interceptor.New(opts, zoo()...)
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

func params(name, rest string) jsonx.Value {
	return jsonx.Value(`{"name":"` + name + `","event":"tools/call","phase":"request","payload":{"x":1.0}` + rest + `}`)
}

// timeless sets the duration of a result to 0.
func timeless(result string) string {
	return regexp.MustCompile(`"durationMs":\d+`).ReplaceAllString(result, `"durationMs":0`)
}

func TestInvokeResults(t *testing.T) {
	t.Parallel()
	server := newZoo(t, nil)
	response := `{"name":"NAME","event":"tools/list","phase":"response","payload":{"x":1.0}}`
	tests := []struct{ name, params, want string }{
		{"pass", string(params("pass", `,"context":null,"config":null,"future":[1]`)), `{"type":"validation","interceptor":"pass","phase":"request","valid":true,"durationMs":0}`},
		{"denial has a severity", string(params("bare denial", "")), `{"type":"validation","interceptor":"bare denial","phase":"request","valid":false,"severity":"error","durationMs":0}`},
		{"warn", string(params("warn", "")), `{"type":"validation","interceptor":"warn","phase":"request","valid":false,"severity":"warn","messages":[{"path":"a.b","message":"say \"hi\"","severity":"warn"}],"suggestions":[{"path":"a","value":12345678901234567890}],"info":{"rule":7},"durationMs":0}`},
		{"same", string(params("same", "")), `{"type":"mutation","interceptor":"same","phase":"request","modified":false,"payload":{"x":1.0},"durationMs":0}`},
		{"other", string(params("other", "")), `{"type":"mutation","interceptor":"other","phase":"request","modified":true,"payload":{"n":12345678901234567890,"s":"\ud83d"},"durationMs":0}`},
		{
			"envelope, unmodified", `{"name":"same","event":"tools/call","phase":"request","payload":{"method":"tools/call", "params":{"x":1}}}`,
			`{"type":"mutation","interceptor":"same","phase":"request","modified":false,"payload":{"method":"tools/call", "params":{"x":1}},"durationMs":0}`,
		},
		{
			"envelope, modified", `{"name":"other","event":"tools/call","phase":"request","payload":{"id":7,"method":"tools/call", "params":{"x":1},"jsonrpc":"2.0"}}`,
			`{"type":"mutation","interceptor":"other","phase":"request","modified":true,"payload":{"id":7,"method":"tools/call", "params":{"n":12345678901234567890,"s":"\ud83d"},"jsonrpc":"2.0"},"durationMs":0}`,
		},
		{
			"a payload that only looks like an envelope", `{"name":"other","event":"tools/call","phase":"request","payload":{"method":"tools/call","params":{},"more":1}}`,
			`{"type":"mutation","interceptor":"other","phase":"request","modified":true,"payload":{"n":12345678901234567890,"s":"\ud83d"},"durationMs":0}`,
		},
		{"sink", strings.Replace(response, "NAME", "sink", 1), `{"type":"sink","interceptor":"sink","phase":"response","recorded":true,"metrics":{"a":9,"b":2.5},"durationMs":0}`},
		{
			"2026-07-28", string(params("pass", `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)),
			`{"type":"validation","interceptor":"pass","phase":"request","valid":true,"durationMs":0,"resultType":"complete"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := server.Invoke(t.Context(), jsonx.Value(tt.params))
			if err != nil {
				t.Fatalf("Invoke: %v", err)
			}
			if diff := cmp.Diff(tt.want, timeless(string(got))); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvokeErrors(t *testing.T) {
	t.Parallel()
	server := newZoo(t, nil)
	tests := []struct {
		name, params string
		code         int
		data         string
	}{
		{"unknown", string(params("nope", "")), -32602, `{"interceptor":"nope","name":"nope"}`},
		{
			"not hooked", `{"name":"sink","event":"tools/call","phase":"request","payload":{}}`, -32602,
			`{"interceptor":"sink","name":"sink","event":"tools/call","phase":"request","advertisedHooks":[{"events":["*"],"phase":"response"}]}`,
		},
		{"no params", ``, -32602, `{"reason":"params are not an object"}`},
		{"array params", `[]`, -32602, `{"reason":"params are not an object"}`},
		{"no name", `{}`, -32602, `{"reason":"name is missing"}`},
		{"name number", `{"name":7}`, -32602, `{"reason":"name is not a string"}`},
		{"case differs", `{"Name":"pass","event":"tools/call","phase":"request","payload":{}}`, -32602, `{"reason":"name is missing"}`},
		{"phase", `{"name":"pass","event":"tools/call","phase":"both","payload":{}}`, -32602, `{"reason":"phase is neither request nor response"}`},
		{"no payload", `{"name":"pass","event":"tools/call","phase":"request"}`, -32602, `{"reason":"payload is missing"}`},
		{"timeout 0", string(params("pass", `,"timeoutMs":0`)), -32602, `{"reason":"timeoutMs is not a positive number"}`},
		{"timeout text", string(params("pass", `,"timeoutMs":"5"`)), -32602, `{"reason":"timeoutMs is not a positive number"}`},
		{"error", string(params("error", "")), -32603, `{"interceptor":"error","phase":"request","reason":"no luck"}`},
		{"long error", string(params("long error", "")), -32603, `{"interceptor":"long error","phase":"request","reason":"` + strings.Repeat("é", 256) + `"}`},
		{"panic", string(params("panic", "")), -32603, `{"interceptor":"panic","phase":"request","reason":"panic"}`},
		{"bad info", string(params("bad info", "")), -32603, `{"interceptor":"bad info","phase":"request","reason":"info is not a JSON object"}`},
		{"bad suggestion", string(params("bad suggestion", "")), -32603, `{"interceptor":"bad suggestion","phase":"request","reason":"value of a suggestion is not JSON"}`},
		{"no mutated payload", string(params("no payload", "")), -32603, `{"interceptor":"no payload","phase":"request","reason":"mutated payload is not valid JSON"}`},
		{"bad mutated payload", string(params("bad payload", "")), -32603, `{"interceptor":"bad payload","phase":"request","reason":"mutated payload is not valid JSON"}`},
		{
			"odd metric", `{"name":"odd sink","event":"x","phase":"response","payload":{}}`, -32603,
			`{"interceptor":"odd sink","phase":"response","reason":"metric is not a finite number"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			result, err := server.Invoke(t.Context(), jsonx.Value(tt.params))
			e, ok := errors.AsType[*wire.RPCError](err)
			if !ok {
				t.Fatalf("Invoke: %s, %v; want a JSON-RPC error", result, err)
			}
			if diff := cmp.Diff(tt.data, string(e.Data)); diff != "" || e.Code != tt.code {
				t.Errorf("code is %d, want %d; data differs (-want +got):\n%s", e.Code, tt.code, diff)
			}
		})
	}
}

func TestInvokeTimeouts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hang", "deaf"} { // one ends with its context, the other ignores it
		synctest.Test(t, func(t *testing.T) {
			server := newZoo(t, &interceptor.Options{MaxConcurrent: 2, Timeout: time.Minute})
			for limit, want := range map[string]time.Duration{`,"timeoutMs":1500`: 1500 * time.Millisecond, ``: time.Minute} {
				start := time.Now()
				_, err := server.Invoke(t.Context(), params(name, limit))
				e, ok := errors.AsType[*wire.RPCError](err)
				if !ok || e.Code != wire.CodeTimeout || time.Since(start) != want {
					t.Errorf("%s: after %v: %v, want a timeout after %v", name, time.Since(start), err, want)
				}
				if data := string(e.Data); want < time.Minute && data != `{"interceptor":"`+name+`","timeoutMs":1500,"phase":"request","reason":"timeout"}` {
					t.Errorf("data is %s", data)
				}
			}
			// A handler that ignores its context keeps its slot: what comes then is refused, not queued.
			_, err := server.Invoke(t.Context(), params("pass", ""))
			if busy := err != nil; busy != (name == "deaf") {
				t.Errorf("%s: next call: %v", name, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := server.Wait(ctx); (err != nil) != (name == "deaf") {
				t.Errorf("%s: Wait: %v", name, err)
			}
			if err := server.Wait(t.Context()); err != nil {
				t.Errorf("%s: Wait: %v", name, err)
			}
		})
	}
}

func TestInvokeCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newZoo(t, nil)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(cause)
		if _, err := server.Invoke(ctx, params("hang", `,"timeoutMs":99`)); !errors.Is(err, cause) {
			t.Errorf("Invoke: %v, want the cause", err)
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *call) (verdict, error) { return verdict{}, nil }
	server, err := interceptor.New(nil,
		interceptor.Mutator(interceptor.Descriptor{
			Name: "m", Version: "1", Description: "d", Hooks: interceptor.OnRequest("tools/call"), Mode: schemas.ModeActive,
			Priority: interceptor.Priority{Request: -5}, Compat: &interceptor.Compat{MinProtocol: "2025-06-18"},
			ConfigSchema: jsonx.Value(`{"type":"object"}`), Meta: jsonx.Value(`{"a":1}`),
		}, func(context.Context, *call) (mutation, error) { return mutation{}, nil }),
		interceptor.Validator(interceptor.Descriptor{Name: "w", Hooks: interceptor.OnResponse("tools/*"), Mode: schemas.ModeAudit, FailOpen: true}, nothing),
		interceptor.Sink(interceptor.Descriptor{Name: "s", Hooks: interceptor.OnResponse("*")}, func(context.Context, *call) (receipt, error) { return receipt{}, nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	const (
		m = `{"name":"m","version":"1","description":"d","type":"mutation","hooks":[{"events":["tools/call"],"phase":"request"}],"priorityHint":{"request":-5},"compat":{"minProtocol":"2025-06-18"},"configSchema":{"type":"object"},"_meta":{"a":1}}`
		w = `{"name":"w","type":"validation","hooks":[{"events":["tools/*"],"phase":"response"}],"mode":"audit","failOpen":true}`
		s = `{"name":"s","type":"sink","hooks":[{"events":["*"],"phase":"response"}]}`
	)
	for _, tt := range []struct {
		params string
		want   []string
	}{
		{``, []string{m, w, s}},
		{`{"cursor":null}`, []string{m, w, s}},
		{`{"event":null}`, []string{m, w, s}},
		{`{"event":"tools/call"}`, []string{m, w, s}},
		{`{"event":"tools/list"}`, []string{w, s}},
		{`{"event":"toolsx/list"}`, []string{s}},
		{`{"event":"prompts/get"}`, []string{s}},
	} {
		got, err := server.Handle(t.Context(), interceptor.MethodList, jsonx.Value(tt.params))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(`{"interceptors":[`+strings.Join(tt.want, ",")+`]}`, string(got)); diff != "" {
			t.Errorf("%s: list differs (-want +got):\n%s", tt.params, diff)
		}
	}
	for _, bad := range []string{`{"event":1}`, `{"event":"*"}`, `{"event":"tools/*"}`, `{"cursor":"x"}`, `{"cursor":"i9"}`, `{"cursor":7}`} {
		_, err := server.List(t.Context(), jsonx.Value(bad))
		if e, ok := errors.AsType[*wire.RPCError](err); !ok || e.Code != wire.CodeInvalidParams {
			t.Errorf("%s: %v, want -32602", bad, err)
		}
	}
}

func TestSinksAsValidators(t *testing.T) {
	t.Parallel()
	server := newZoo(t, &interceptor.Options{SinksAsValidators: true})
	list, err := server.List(t.Context(), jsonx.Value(`{"event":"prompts/get"}`))
	if err != nil || !strings.Contains(string(list), `"name":"sink","type":"validation","hooks":[{"events":["*"],"phase":"response"}],"mode":"audit","failOpen":true`) {
		t.Errorf("list: %s, %v", list, err)
	}
	got, err := server.Invoke(t.Context(), jsonx.Value(`{"name":"sink","event":"x","phase":"response","payload":null}`))
	if want := `{"type":"validation","interceptor":"sink","phase":"response","valid":true,"durationMs":0}`; err != nil || timeless(string(got)) != want {
		t.Errorf("Invoke: %s, %v; want %s", got, err, want)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	v := func(d interceptor.Descriptor) []interceptor.Interceptor {
		return []interceptor.Interceptor{interceptor.Validator(d, func(context.Context, *call) (verdict, error) { return verdict{}, nil })}
	}
	tests := map[string][]interceptor.Interceptor{
		"no name":     v(interceptor.Descriptor{Hooks: interceptor.Both("*")}),
		"no hooks":    v(interceptor.Descriptor{Name: "n"}),
		"no events":   v(interceptor.Descriptor{Name: "n", Hooks: interceptor.OnRequest()}),
		"empty event": v(interceptor.Descriptor{Name: "n", Hooks: interceptor.OnRequest("")}),
		"phase":       v(interceptor.Descriptor{Name: "n", Hooks: []schemas.Hook{{Events: []string{"*"}, Phase: "never"}}}),
		"mode":        v(interceptor.Descriptor{Name: "n", Hooks: interceptor.Both("*"), Mode: "enforce"}),
		"schema":      v(interceptor.Descriptor{Name: "n", Hooks: interceptor.Both("*"), ConfigSchema: jsonx.Value(`true`)}),
		"meta":        v(interceptor.Descriptor{Name: "n", Hooks: interceptor.Both("*"), Meta: jsonx.Value(`{"a":1,"a":1}`)}),
		"twice":       append(v(on("n")), v(on("n"))...),
		"no handler":  {{Descriptor: on("n")}},
		"sink with a mode": {interceptor.Sink(interceptor.Descriptor{Name: "n", Hooks: interceptor.Both("*"), Mode: schemas.ModeAudit},
			func(context.Context, *call) (receipt, error) { return receipt{}, nil })},
	}
	for name, list := range tests {
		if _, err := interceptor.New(nil, list...); !errors.Is(err, interceptor.ErrDescriptor) {
			t.Errorf("%s: New: %v, want ErrDescriptor", name, err)
		}
	}
}

func TestTypedHandlers(t *testing.T) {
	t.Parallel()
	type payload struct {
		Name string `json:"name"`
	}
	server, err := interceptor.New(nil,
		interceptor.TypedValidator(on("v"), func(_ context.Context, c *call, p *payload) (verdict, error) {
			caller, err := c.Caller()
			if err != nil || caller.Principal.ID != "u" || c.SessionID() != "s" {
				return verdict{}, errors.New("caller is lost")
			}
			config := struct {
				Deny string `json:"deny"`
			}{"none"}
			if err := c.DecodeConfig(&config); err != nil {
				return verdict{}, err
			}
			return verdict{Valid: p.Name != config.Deny}, nil
		}),
		interceptor.TypedMutator(on("m"), func(_ context.Context, _ *call, p *payload) (bool, error) {
			p.Name += "!"
			return true, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := server.Invoke(t.Context(), jsonx.Value(`{"name":"v","event":"tools/call","phase":"request","payload":{"name":"x"},"config":{"deny":"x"},"context":{"sessionId":"s","principal":{"id":"u","new":1}}}`))
	if err != nil || !strings.Contains(string(got), `"valid":false,"severity":"error"`) {
		t.Errorf("validator: %s, %v", got, err)
	}
	got, err = server.Invoke(t.Context(), jsonx.Value(`{"name":"m","event":"tools/call","phase":"request","payload":{"name":"x"}}`))
	if err != nil || !strings.Contains(string(got), `"payload":{"name":"x!"}`) {
		t.Errorf("mutator: %s, %v", got, err)
	}
	if _, err = server.Invoke(t.Context(), jsonx.Value(`{"name":"m","event":"tools/call","phase":"request","payload":[]}`)); err == nil {
		t.Error("a payload of another type was taken")
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, event string
		phase          schemas.Phase
		want           bool
	}{
		{"*", "a/b", "request", true},
		{"a/b", "a/b", "response", true},
		{"a/b", "a/B", "request", false},
		{"*/request", "a/b", "request", true},
		{"*/request", "a/b", "response", false},
		{"*/response", "ping", "response", true},
		{"tools/*", "tools/call", "request", true},
		{"tools/*", "tools/", "request", true},
		{"tools/*", "tools", "request", false},
		{"tools/*", "toolsx/y", "request", false},
		{"a*", "ab", "request", true},
		{"a*c*e", "abcde", "request", true},
		{"a*c*e", "ace", "request", true},
		{"a*c*ce", "ace", "request", false},
		{"*a", "ba", "request", true},
		{"*a", "ab", "request", false},
		{"**", "", "request", true},
	}
	for _, tt := range tests {
		if got := interceptor.Match(tt.pattern, tt.event, tt.phase); got != tt.want {
			t.Errorf("Match(%q, %q, %s) is %t", tt.pattern, tt.event, tt.phase, got)
		}
	}
}

func FuzzInvoke(f *testing.F) {
	for _, p := range []string{`{"payload":{"method":"tools/call","params":{}}}`, `,"timeoutMs":1e400`, `,"context":{"sessionId":"\ud83d"}`} {
		f.Add([]byte(params("other", p)))
		f.Add([]byte(p))
	}
	server := newZoo(f, nil)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if traits, err := jsonx.Verify(raw, 100); err != nil || traits.Duplicates || traits.InvalidUTF8 ||
			strings.Contains(string(raw), "hang") || strings.Contains(string(raw), "deaf") || strings.Contains(string(raw), `\u`) {
			return
		}
		for _, method := range []string{interceptor.MethodInvoke, interceptor.MethodList, wire.MethodInitialize, wire.MethodDiscover} {
			result, err := server.Handle(t.Context(), method, raw)
			answer := wire.NewResponse(jsonx.Value("1"), result)
			if err != nil {
				e, ok := errors.AsType[*wire.RPCError](err)
				if !ok {
					t.Fatalf("%s: %v", method, err)
				}
				answer = wire.NewErrorAnswer(jsonx.Value("1"), e)
			}
			if _, err := wire.Parse(answer, wire.Limits{}); err != nil {
				t.Fatalf("%s: the answer %s: %v", method, answer, err)
			}
		}
	})
}
