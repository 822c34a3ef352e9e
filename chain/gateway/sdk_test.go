package gateway

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
)

const legacy = "2025-11-25"

// TestCallOverHTTP: a real client calls a real server through every kind of backend behind the HTTP
// front; every exchange is recorded.
func TestCallOverHTTP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ backend, version string }{
		{"http", legacy},
		{"http-json", legacy},
		{"http", "2025-03-26"},
		{"stateless", legacy},
		{"stateless", version20260728},
		{"stdio", legacy},
		{"shared", legacy},
		{"stdio", version20260728},
		{"shared", version20260728},
	} {
		t.Run(c.backend+" "+c.version, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{Backends: []Backend{backend(t, c.backend, nil)}})
			cs := connect(t, g.url, nil, c.version)
			if _, err := cs.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
			if got := textOf(t, res, err); got != "hello" {
				t.Errorf("got %q, want hello", got)
			}
			rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed)
			ev := &rec.Event
			if ev.Operation.Target != "echo" || ev.Operation.Server != "b" || ev.Operation.Phase != schemas.PhaseResponse || ev.Operation.Direction != schemas.Receiving {
				t.Errorf("operation is %+v", ev.Operation)
			}
			if ev.Correlation.ProtocolVersion != c.version {
				t.Errorf("protocol version is %q, want %q", ev.Correlation.ProtocolVersion, c.version)
			}
			if item(rec, schemas.RoleBefore) == nil {
				t.Error("no result kept")
			}
		})
	}
}

func TestToolError(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Backends: []Backend{backend(t, "http", nil)}})
	cs := connect(t, g.url, nil, legacy)
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "fail", Arguments: map[string]any{}})
	if err != nil || !res.IsError {
		t.Fatalf("got %+v, %v, want a tool error", res, err)
	}
	if rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed); !rec.Event.Decision.IsError {
		t.Error("the outcome does not say is_error")
	}
}

// TestMutation: both phases of a call can be changed, and only the changed member is.
func TestMutation(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "http-json", "stateless", "stdio", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := &fakePlan{
				matches: func(event string, _ schemas.Phase) bool { return event == methodToolsCall },
				run: func(_ context.Context, in chain.Input) chain.Result {
					if in.Phase == schemas.PhaseRequest {
						return chain.Result{Modified: true, Payload: replace(in.Payload, "secret", "[gone]")}
					}
					return chain.Result{Modified: true, Payload: replace(in.Payload, "[gone]", "[back]")}
				},
			}
			g := serve(t, Options{Backends: []Backend{backend(t, kind, p)}})
			version := legacy
			if kind == "stateless" {
				version = version20260728
			}
			cs := connect(t, g.url, nil, version)
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "secret"}})
			if got := textOf(t, res, err); got != "[back]" {
				t.Errorf("got %q, want [back]", got)
			}
			rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed)
			if item(rec, schemas.RoleAfter) == nil || !rec.Event.Decision.Modified {
				t.Error("the change is not recorded")
			}
		})
	}
}
