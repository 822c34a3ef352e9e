package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// askingServer is a real server that asks twice, binds its state to the arguments that it saw, and
// tells in the end what it was given.
//
//nolint:staticcheck // sampling and roots are deprecated, and still in use
func askingServer(t *testing.T) *mcp.Server {
	t.Helper()
	s := sdkServer(nil)
	s.AddTool(&mcp.Tool{Name: "twice", InputSchema: jsonx.Value(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		seen := string(r.Params.Arguments)
		name, _ := r.Params.InputResponses["name"].(*mcp.ElicitResult)
		model, _ := r.Params.InputResponses["model"].(*mcp.CreateMessageWithToolsResult)
		round, bound, _ := strings.Cut(r.Params.RequestState, " ")
		if round != "" && bound != seen {
			return nil, fmt.Errorf("the state is bound to %s, the arguments are %s", bound, seen)
		}
		switch {
		case round == "":
			ask := &mcp.ElicitParams{Message: "who?", RequestedSchema: jsonx.Value(`{"type":"object","properties":{"name":{"type":"string"}}}`)}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": ask, "roots": &mcp.ListRootsParams{}}, RequestState: "1 " + seen}, nil
		case name != nil:
			ask := &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprint("greet ", name.Content["name"])}}}}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"model": ask}, RequestState: "2 " + seen}, nil
		case model != nil:
			return text(seen + " " + model.Content[0].(*mcp.TextContent).Text), nil
		}
		return nil, fmt.Errorf("unexpected round %q", round)
	})
	return s
}

// TestRoundsSteady: a mutator that never does the same twice changes every round of a call alike, so
// that a server that binds its state to the arguments goes on. All rounds are one call, and each entry
// an exchange of its own.
//
//nolint:staticcheck // sampling is deprecated, and still in use
func TestRoundsSteady(t *testing.T) {
	t.Parallel()
	s := askingServer(t)
	var runs atomic.Int64
	p := &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == methodToolsCall && phase == schemas.PhaseRequest
		},
		run: func(_ context.Context, in chain.Input) chain.Result {
			return chain.Result{Modified: true, Payload: replace(in.Payload, "fixed", fmt.Sprint("run ", runs.Add(1)))}
		},
	}
	b := Backend{Name: "b", Plan: planOf(p), URL: serveSDK(t, s, &mcp.StreamableHTTPOptions{Stateless: true})}
	g := serve(t, Options{Backends: []Backend{b}})
	cs := connect(t, g.url, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: r.Params.Messages[0].Content}, nil
		},
	}, version20260728)
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "twice", Arguments: map[string]any{"x": "fixed"}})
	if got, want := textOf(t, res, err), `{"x":"run 1"} greet Ann`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var outer, inner []schemas.Event
	for _, rec := range g.ledger.records() {
		switch {
		case rec.Event.Operation.Event == methodToolsCall:
			outer = append(outer, rec.Event)
		case rec.Event.Operation.Reverse:
			inner = append(inner, rec.Event)
		}
	}
	if len(outer) != 6 || len(inner) != 6 {
		t.Fatalf("%d events of the call, %d of its entries, want 6 and 6:\n%s", len(outer), len(inner), strings.Join(g.ledger.lines(), "\n"))
	}
	call := outer[0].Correlation.Exchange
	for _, ev := range append(outer, inner...) {
		if ev.Correlation.Call != call {
			t.Errorf("%s %s belongs to call %s, want %s", ev.Kind, ev.Operation.Event, ev.Correlation.Call, call)
		}
	}
	for i := range 2 { // request, outcome, request, outcome …
		out, in := outer[2*i+1].Correlation.StateOut, outer[2*i+2].Correlation.StateIn
		if out == "" || out != in {
			t.Errorf("round %d hands out %q, round %d brings %q", i+1, out, i+2, in)
		}
	}
}

// TestRoundsAcrossGateways: a retry that comes by another gateway of the tenant is joined by the keyed
// digest of its state, or where the server gives none by what was asked.
func TestRoundsAcrossGateways(t *testing.T) {
	t.Parallel()
	for _, state := range []string{`,"requestState":"opaque"`, ""} {
		t.Run("state "+state, func(t *testing.T) {
			t.Parallel()
			peer := newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
				answer := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"roots":{"method":"roots/list"}}` + state + `}}`
				if bytes.Contains(body, []byte("inputResponses")) {
					answer = `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}`
				}
				answerJSON(answer)(w, nil, nil)
			})
			opts := Options{Backends: httpBackend(peer.url, nil), Key: seal.Key{7}}
			first, second := serve(t, opts), serve(t, opts)
			postRaw(t, first.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1,"b":2},"_meta":{"progressToken":1}}}`))
			retry := []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":2},"arguments":{"b":2,"a":1},"name":"t","inputResponses":{"roots":{"roots":[]}}` + state + `}}`)
			postRaw(t, second.url, retry)
			out := first.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed).Event.Correlation.StateOut
			in := second.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed).Event.Correlation.StateIn
			if out == "" || out != in {
				t.Errorf("the one hands out %q, the other is brought %q", out, in)
			}
			// The same gateway joins them itself.
			postRaw(t, first.url, retry)
			records := first.ledger.records()
			for _, rec := range records {
				if rec.Event.Correlation.Call != records[0].Event.Correlation.Exchange {
					t.Errorf("%s %s is not part of the call", rec.Event.Kind, rec.Event.Operation.Event)
				}
			}
			first.ledger.waitOutcome(t, "roots/list", schemas.OutcomeAllowed)
		})
	}
}

// TestStateUntouched: whatever interceptors do to it, the state goes on as it is, in both directions.
func TestStateUntouched(t *testing.T) {
	t.Parallel()
	for _, change := range []func(jsonx.Value) jsonx.Value{
		func(v jsonx.Value) jsonx.Value { return replace(v, "opaque", "OPAQUE") },
		func(v jsonx.Value) jsonx.Value { return replace(v, `,"requestState":"opaque"`, "") },
	} {
		p := &fakePlan{
			matches: func(event string, _ schemas.Phase) bool { return event == methodToolsCall },
			run: func(_ context.Context, in chain.Input) chain.Result {
				return chain.Result{Modified: true, Payload: change(in.Payload)}
			},
		}
		peer := newRawPeer(t, answerJSON(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"opaque"}}`))
		g := serve(t, Options{Backends: httpBackend(peer.url, p)})
		_, _, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","requestState":"opaque"}}`))
		for from, raw := range map[string][]byte{"client": body, "server": peer.requests()[0]} {
			if !bytes.Contains(raw, []byte(`"requestState":"opaque"`)) {
				t.Errorf("the %s got %s", from, raw)
			}
		}
	}
}

// TestNarrowCache: a mutated result is cached for no longer, and for no one else.
func TestNarrowCache(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, before, after, want string }{
		{"no caching", `{"a":1}`, `{"a":2}`, `{"a":2}`},
		{"public", `{"cacheScope":"public","ttlMs":5}`, `{"cacheScope":"public","ttlMs":5,"a":1}`, `{"cacheScope":"private","ttlMs":5,"a":1}`},
		{"private made public", `{"cacheScope":"private","ttlMs":5}`, `{"cacheScope":"public","ttlMs":5}`, `{"cacheScope":"private","ttlMs":5}`},
		{"longer", `{"cacheScope":"private","ttlMs":5}`, `{"cacheScope":"private","ttlMs":500}`, `{"cacheScope":"private","ttlMs":5}`},
		{"shorter", `{"cacheScope":"private","ttlMs":5}`, `{"cacheScope":"private","ttlMs":0}`, `{"cacheScope":"private","ttlMs":0}`},
		{"taken out", `{"cacheScope":"private","ttlMs":5}`, `{"a":1}`, `{"ttlMs":5,"cacheScope":"private","a":1}`},
		{"put in", `{"a":1}`, `{"cacheScope":"public","ttlMs":9}`, `{"cacheScope":"private","ttlMs":0}`},
		{"no number", `{"ttlMs":5}`, `{"ttlMs":"9"}`, `{"ttlMs":5}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := narrowCache(jsonx.Value(tt.before), jsonx.Value(tt.after)); string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestCallTableBounds: calls and what is remembered of their params are bounded.
func TestCallTableBounds(t *testing.T) {
	t.Parallel()
	table := newCallTable()
	key := func(i int) seal.Pseudonym { return seal.Pseudonym(strconv.Itoa(i)) }
	for i := range 3 * maxCalls {
		table.put(key(i), &call{core: make(jsonx.Value, maxCore)})
	}
	if table.get(key(0)) != nil || table.get(key(3*maxCalls-1)) == nil || len(table.calls) != maxCalls || table.bytes > maxCoreBytes {
		t.Errorf("%d calls, %d bytes", len(table.calls), table.bytes)
	}
	for i := range maxCalls {
		table.put(key(-i-1), &call{})
	}
	if table.bytes != 0 {
		t.Errorf("%d bytes of calls that are gone", table.bytes)
	}
}
