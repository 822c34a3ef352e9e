package middleware_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/middleware"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// house has interceptors that do as the payload says: what holds "secret" is denied, "plain" becomes "fancy", and the
// member drop is taken out of arguments.
func house() []interceptor.Interceptor {
	return []interceptor.Interceptor{
		interceptor.Validator(interceptor.Descriptor{Name: "v", Hooks: interceptor.Both("*")},
			func(_ context.Context, c *interceptor.Call) (interceptor.Verdict, error) {
				if strings.Contains(string(c.Payload), "secret") {
					return interceptor.Deny("a secret"), nil
				}
				return interceptor.Pass(), nil
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "m", Hooks: interceptor.Both("tools/*", "acme/*")},
			func(_ context.Context, c *interceptor.Call) (interceptor.Mutation, error) {
				out := strings.NewReplacer("plain", "fancy", `,"drop":1`, "").Replace(string(c.Payload))
				if strings.Contains(out, "no object") {
					out = `{"content":7}`
				}
				if out == string(c.Payload) {
					return interceptor.Unmodified(), nil
				}
				return interceptor.Modified(jsonx.Value(out)), nil
			}),
		interceptor.Sink(interceptor.Descriptor{Name: "s", Hooks: interceptor.Both("tools/call")},
			func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				return interceptor.Recorded(), nil
			}),
	}
}

// files is a server whose tool tells what it got.
func files(tb testing.TB) *mcp.Server {
	tb.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := string(req.Params.Arguments)
			if token := req.Params.GetMeta()["progressToken"]; token != nil {
				text += " with token"
			}
			switch {
			case strings.Contains(text, "fail"):
				return nil, &jsonrpc.Error{Code: -32002, Message: "no such file", Data: []byte(`{"uri":"x"}`)}
			case strings.Contains(text, "leak"):
				text = "a secret"
			case strings.Contains(text, "late"):
				text = "plain"
			case strings.Contains(text, "spoil"):
				text = "no object"
			}
			return &mcp.CallToolResult{Meta: mcp.Meta{"kept": true}, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	return server
}

func TestCalls(t *testing.T) {
	t.Parallel()
	for _, version := range []string{wire.Version20251125, wire.Version20260728} {
		for name, tt := range map[string]struct{ arguments, want, recorded string }{
			"allowed":         {`{"a":1}`, `{"a":1} with token`, "allowed 0"},
			"request changed": {`{"a":"plain","drop":1}`, `{"a":"fancy"} with token`, "allowed 0"},
			"result changed":  {`{"a":"late"}`, `fancy`, "allowed 0"},
			"request denied":  {`{"a":"secret"}`, `-32602 {"validationErrors":[{"interceptor":"v","severity":"error","message":"a secret"}]}`, "denied -32602"},
			"result denied":   {`{"a":"leak"}`, `-32602 {"validationErrors":[{"interceptor":"v","severity":"error","message":"a secret"}]}`, "denied -32602"},
			"handler error":   {`{"a":"fail"}`, `-32002 {"uri":"x"}`, "error -32002"},
			"not decodable":   {`{"a":"spoil"}`, `-32603 `, "error -32603"},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				l, server := &ledger{}, files(t)
				install(t, server, middleware.Options{Plan: planOf(t, house()...), Recorder: l})
				client := dial(t, server, version)
				got, err := client.Call(t.Context(), "tools/call",
					jsonx.Value(`{"name":"echo","arguments":`+tt.arguments+`,"_meta":{"progressToken":"p"}}`))
				if said := tell(got, err); said != tt.want {
					t.Errorf("got %s, want %s", said, tt.want)
				}
				if err == nil && !strings.Contains(string(got), `"kept":true`) {
					t.Errorf("_meta is lost: %s", got)
				}
				checkRecords(t, l.all(), tt.recorded, version)
			})
		}
	}
}

// tell is the text of a result, or code and data of an error.
func tell(got jsonx.Value, err error) string {
	if e, ok := errors.AsType[*wire.RPCError](err); ok {
		return strings.TrimPrefix(e.Error()[:len("JSON-RPC error -32602")], "JSON-RPC error ") + " " + string(e.Data)
	}
	if err != nil {
		return err.Error()
	}
	content, _ := wire.Member(got, "content")
	for c := range jsonx.Elements(content) {
		text, _ := wire.MemberString(c, "text")
		return text
	}
	return string(got)
}

func checkRecords(t *testing.T, records []*schemas.Record, want, version string) {
	t.Helper()
	var own []*schemas.Record
	for _, r := range records {
		if r.Event.Operation.Event == "tools/call" {
			own = append(own, r)
		}
	}
	if len(own) != 2 || own[0].Event.Kind != schemas.KindRequest || own[1].Event.Kind != schemas.KindOutcome {
		t.Fatalf("%d records, want a request and an outcome", len(own))
	}
	request, outcome := own[0].Event, own[1].Event
	outcomeWord, code, _ := strings.Cut(want, " ")
	if d := outcome.Decision; string(d.Outcome) != outcomeWord || (code == "0") != (d.ErrorCode == 0) {
		t.Errorf("outcome %s, %d, want %s", d.Outcome, d.ErrorCode, want)
	}
	if request.Operation.Direction != schemas.Receiving || outcome.Operation.Direction != schemas.Sending {
		t.Errorf("directions %s and %s, want receiving and sending", request.Operation.Direction, outcome.Operation.Direction)
	}
	if got := request.Correlation.ProtocolVersion; got != version || request.Correlation.Exchange != outcome.Correlation.Exchange {
		t.Errorf("version %s, exchanges %v and %v", got, request.Correlation.Exchange, outcome.Correlation.Exchange)
	}
}

type searchParams struct {
	mcp.ParamsBase
	Query string `json:"query"`
	Drop  int    `json:"drop,omitempty"`
}

type searchResult struct {
	mcp.ResultBase
	Hits []string `json:"hits"`
}

// A method that was added to the server takes part under its name; a nil result ends without a response phase.
func TestCustomMethods(t *testing.T) {
	t.Parallel()
	l, server := &ledger{}, mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	if err := mcp.AddReceivingCustomMethod(server, "acme/search", func(_ context.Context, _ *mcp.ServerSession, p *searchParams) (*searchResult, error) {
		if p == nil || p.Drop != 0 {
			return nil, errors.New("the old value shines through")
		}
		return &searchResult{Hits: []string{p.Query, "plain"}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	install(t, server, middleware.Options{Plan: planOf(t, house()...), Recorder: l})
	client := dial(t, server, wire.Version20251125)
	got, err := client.Call(t.Context(), "acme/search", jsonx.Value(`{"query":"plain","drop":1}`))
	hits, _ := wire.Member(got, "hits")
	if err != nil || string(hits) != `["fancy","fancy"]` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := client.Call(t.Context(), "acme/search", jsonx.Value(`{"query":"secret"}`)); err == nil {
		t.Errorf("a denied request was answered: %s", got)
	}
}

// What is skipped never goes through the plan, and the list can be another one.
func TestSkip(t *testing.T) {
	t.Parallel()
	deny := interceptor.Validator(interceptor.Descriptor{Name: "no", Hooks: interceptor.Both("*")},
		func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
			return interceptor.Deny("no"), nil
		})
	for name, tt := range map[string]struct {
		skip       []string
		ping, list bool
	}{
		"default": {nil, true, false},
		"more":    {append(middleware.DefaultSkip(), "tools/list"), true, true},
		"less":    {[]string{"initialize", "notifications/initialized"}, false, false},
	} {
		server := files(t)
		install(t, server, middleware.Options{Plan: planOf(t, deny), Recorder: &ledger{}, Skip: tt.skip})
		client := dial(t, server, wire.Version20251125)
		if _, err := client.Call(t.Context(), "ping", nil); (err == nil) != tt.ping {
			t.Errorf("%s: ping: %v", name, err)
		}
		if _, err := client.Call(t.Context(), "tools/list", jsonx.Value(`{}`)); (err == nil) != tt.list {
			t.Errorf("%s: tools/list: %v", name, err)
		}
	}
}

// A request that is not recorded is not made; a result that is not recorded is kept back.
func TestNotRecorded(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.Kind{schemas.KindRequest, schemas.KindOutcome} {
		server := files(t)
		install(t, server, middleware.Options{Plan: planOf(t), Recorder: &ledger{refuse: kind}})
		_, err := dial(t, server, wire.Version20251125).Call(t.Context(), "tools/call", jsonx.Value(`{"name":"echo","arguments":{}}`))
		if got := tell(nil, err); got != `-32603 {"cause":"audit_failed"}` {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// Without a recorder sinks run in the background; a plan that matches nothing leaves the handler alone.
func TestWithoutRecorder(t *testing.T) {
	t.Parallel()
	background, server := chain.NewBackground(nil), files(t)
	install(t, server, middleware.Options{Plan: planOf(t, house()...), Background: background, Events: []string{"tools/call"}})
	client := dial(t, server, wire.Version20251125)
	for _, method := range []string{"tools/call", "tools/list"} {
		if _, err := client.Call(t.Context(), method, jsonx.Value(`{"name":"echo","arguments":{"plain":1}}`)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := background.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(uint64(2), background.Stats().Finished); diff != "" {
		t.Errorf("sinks run, one for each phase of the one call (-want +got):\n%s", diff)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	if _, err := middleware.New(middleware.Options{}); err == nil {
		t.Error("options without anything were taken")
	}
}
