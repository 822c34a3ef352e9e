package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// realPlan is in force: a validator that stops what says evil, a mutator that takes out secrets, and
// a sink, which only ever runs later.
func realPlan(t *testing.T) func() Plan {
	t.Helper()
	return realPlanWith(t, chain.Config{Server: "b"})
}

func realPlanWith(t *testing.T, config chain.Config) func() Plan {
	t.Helper()
	server, err := interceptor.New(
		nil,
		interceptor.Validator(interceptor.Descriptor{Name: "acme/dlp", Version: "1", Hooks: interceptor.OnRequest("tools/call")},
			func(_ context.Context, c *interceptor.Call) (interceptor.Verdict, error) {
				if strings.Contains(string(c.Payload), "evil") {
					return interceptor.Deny("no evil"), nil
				}
				return interceptor.Pass(), nil
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "acme/redactor", Version: "2", Hooks: interceptor.Both("tools/call")},
			func(_ context.Context, c *interceptor.Call) (interceptor.Mutation, error) {
				return interceptor.Mutation{Modified: true, Payload: jsonx.Value(strings.ReplaceAll(string(c.Payload), "secret", "[gone]"))}, nil
			}),
		interceptor.Sink(interceptor.Descriptor{Name: "acme/sink", Version: "1", Hooks: interceptor.Both("*")},
			func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				t.Error("a sink ran in the path")
				return interceptor.Receipt{}, nil
			}),
	)
	if err != nil {
		t.Fatal(err)
	}
	set, err := chain.NewSet(chain.SetOptions{
		Config: config,
		Hosts:  []chain.HostSpec{{Ref: schemas.HostRef{Host: "inprocess"}, Connect: chain.Local(server)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() Plan { return set.Current() }
}

// TestRealChain: the real runner in the path of a real client and server.
func TestRealChain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "stdio"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := backend(t, kind, nil)
			b.Plan = realPlan(t)
			g := serve(t, Options{Backends: []Backend{b}})
			cs := connect(t, g.url, nil, legacy)
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "my secret"}})
			if got := textOf(t, res, err); got != "my [gone]" {
				t.Errorf("got %q, want my [gone]", got)
			}
			rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed)
			states := map[string]schemas.InvocationState{}
			for _, inv := range rec.Event.Invocations {
				states[inv.Interceptor] = inv.State
				if inv.Input != "" && inv.State == schemas.StateDeferred && item(rec, schemas.Role(inv.Input)) == nil {
					t.Errorf("%s is to get %s, which is not there", inv.Interceptor, inv.Input)
				}
			}
			if states["acme/sink"] != schemas.StateDeferred || states["acme/redactor"] != schemas.StateFinished {
				t.Errorf("invocations %v", states)
			}
			_, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "evil"}})
			if err == nil || !strings.Contains(err.Error(), "validation") {
				t.Errorf("got %v, want a denial", err)
			}
			d := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeDenied).Event.Decision
			if d.AbortedAt != "acme/dlp" || d.AbortPhase != schemas.PhaseRequest {
				t.Errorf("decision %+v", d)
			}
		})
	}
}
