package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
)

// saying is a plan that puts its name in the place of what tools answer.
func saying(name string) *fakePlan {
	return &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == methodToolsCall && phase == schemas.PhaseResponse
		},
		run: func(_ context.Context, in chain.Input) chain.Result {
			return chain.Result{Modified: true, Payload: replace(in.Payload, "opened", name)}
		},
	}
}

// TestReloadKeepsSessions: sessions and what runs in them go on; what runs keeps its plan.
func TestReloadKeepsSessions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "stdio", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := backend(t, kind, saying("old"))
			g := serve(t, Options{Backends: []Backend{b}})
			cs := connect(t, g.url, nil, legacy)
			type result struct {
				text string
				err  error
			}
			waiting := make(chan result, 1)
			go func() { // exits with the call
				res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait"})
				if err != nil {
					waiting <- result{err: err}
					return
				}
				waiting <- result{text: res.Content[0].(*mcp.TextContent).Text}
			}()
			g.ledger.waitRequest(t)
			b.Plan = planOf(saying("new"))
			if err := g.Reload(t.Context(), []Backend{b}, Rules{DenyAs: DenyAsResult}); err != nil {
				t.Fatal(err)
			}
			settled := make(chan error, 1)
			go func() { settled <- g.Settled(t.Context()) }() // exits when the call has ended
			if got := callTool(t, cs, "echo", "opened"); got != "new" {
				t.Errorf("a call after the reload: got %q, want new", got)
			}
			select {
			case err := <-settled:
				t.Errorf("settled while a call from before is open: %v", err)
			default:
			}
			callTool(t, cs, "open", "")
			if got := <-waiting; got.err != nil || got.text != "old" {
				t.Errorf("a call from before the reload: got %+v, want old", got)
			}
			if err := <-settled; err != nil {
				t.Error(err)
			}
		})
	}
}

func callTool(t *testing.T, cs *mcp.ClientSession, tool, text string) string {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"text": text}})
	return textOf(t, res, err)
}

// TestReloadChangesBackend: a session that began at the old server stays there, a new one begins at the new
// one, and the old one is ended when nobody uses it any more.
func TestReloadChangesBackend(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "stdio", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{Backends: []Backend{backend(t, kind, nil)}, SessionIdle: 500 * time.Millisecond})
			old := connect(t, g.url, nil, legacy)
			next := backend(t, kind, nil)
			if next.Env != nil {
				next.Env["GENERATION"] = "2"
			}
			before := g.table.Load().fronts["b"]
			if err := g.Reload(t.Context(), []Backend{next}, Rules{}); err != nil {
				t.Fatal(err)
			}
			if g.table.Load().fronts["b"] == before {
				t.Fatal("the old front serves the changed backend")
			}
			fresh := connect(t, g.url, nil, legacy)
			for name, cs := range map[string]*mcp.ClientSession{"old": old, "new": fresh} {
				if got := callTool(t, cs, "echo", name); got != name {
					t.Errorf("got %q, want %q", got, name)
				}
			}
			_ = old.Close()
			waitFor(t, "the old front is ended", func() bool { return len(g.table.Load().former) == 0 })
			if got := callTool(t, fresh, "echo", "still"); got != "still" && kind == "http" {
				t.Errorf("got %q, want still", got)
			}
		})
	}
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// TestReloadHeaders: with other headers for the same URL the sessions go on.
func TestReloadHeaders(t *testing.T) {
	t.Parallel()
	b := backend(t, "http", nil)
	g := serve(t, Options{Backends: []Backend{b}})
	cs := connect(t, g.url, nil, legacy)
	b.Headers = map[string]string{"X-Token": "2"}
	if err := g.Reload(t.Context(), []Backend{b}, Rules{}); err != nil {
		t.Fatal(err)
	}
	if got := callTool(t, cs, "echo", "on"); got != "on" {
		t.Errorf("got %q, want on", got)
	}
	rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed)
	if rec.Event.Correlation.ProtocolVersion != legacy {
		t.Errorf("the session is not known any more: %+v", rec.Event.Correlation)
	}
}

// TestReloadAddsAndRemoves: backends come and go, and a configuration that cannot be is refused whole.
func TestReloadAddsAndRemoves(t *testing.T) {
	t.Parallel()
	one, two := backend(t, "http", nil), backend(t, "stdio", nil)
	two.Name = "c"
	g := serve(t, Options{Backends: []Backend{one}})
	other := strings.Replace(g.url, "/b/", "/c/", 1)
	status := func(url string) int {
		status, _, _ := postRaw(t, url, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		return status
	}
	if err := g.Reload(t.Context(), []Backend{one, two}, Rules{}); err != nil {
		t.Fatal(err)
	}
	cs := connect(t, other, nil, legacy)
	if got := callTool(t, cs, "echo", "two"); got != "two" {
		t.Errorf("got %q, want two", got)
	}
	for _, bad := range [][]Backend{nil, {one, one}, {{Name: "c"}}} {
		if err := g.Reload(t.Context(), bad, Rules{}); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	if err := g.Reload(t.Context(), []Backend{two}, Rules{DenyAs: "silence"}); err == nil {
		t.Error("bad rules: no error")
	}
	if got := status(g.url); got == http.StatusNotFound {
		t.Error("a refused configuration took a backend away")
	}
	if err := g.Reload(t.Context(), []Backend{one}, Rules{}); err != nil {
		t.Fatal(err)
	}
	if got := status(other); got != http.StatusNotFound {
		t.Errorf("a removed backend answers with status %d", got)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := g.Reload(t.Context(), []Backend{two}, Rules{}); err == nil {
		t.Error("a closed gateway takes a configuration")
	}
}
