package gateway

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// TestServerInfo: real clients see the configured name, and what was changed is recorded; other answers pass as they are.
func TestServerInfo(t *testing.T) {
	t.Parallel()
	eachWayWith(t, func(o *Options) { o.Rules.ServerInfo = ServerInfo{Name: "edge"} }, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		if info := cs.InitializeResult().ServerInfo; info == nil || info.Name != "edge" || info.Version != "1" {
			t.Errorf("got %+v, want the name edge and the server's own version", info)
		}
		method := methodInitialize
		if w.version != legacy {
			method = methodDiscover
		}
		rec := w.ledger.waitOutcome(t, method, schemas.OutcomeAllowed)
		if inv := rec.Event.Invocations; len(inv) != 1 || inv[0].Interceptor != amendServerInfo || !rec.Event.Decision.Modified {
			t.Errorf("invocations %+v", inv)
		}
	})
}

// TestEventsFilter: what is not named is not chained, in any direction or phase.
func TestEventsFilter(t *testing.T) {
	t.Parallel()
	p := &fakePlan{run: func(_ context.Context, in chain.Input) chain.Result { return deny(in) }}
	eachWayWith(t, func(o *Options) {
		o.Rules.Events = []string{"tools/c*"}
		o.Backends[0].Plan = planOf(p)
	}, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		if _, err := cs.ListTools(t.Context(), nil); err != nil {
			t.Errorf("a list, which is not chained: %v", err)
		}
		if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo"}); err == nil {
			t.Error("a call, which is chained, was not denied")
		}
	})
}

func TestRepairSchemas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`{"tools":[{"name":"a"},{"name":"b","inputSchema":{"type":"object","x":1}}],"n":1.0}`, `{"tools":[{"inputSchema":{"type":"object"},"name":"a"},{"name":"b","inputSchema":{"type":"object","x":1}}],"n":1.0}`},
		{`{"tools":[{"inputSchema":null,"name":"a"}, {"inputSchema":{"type":"string"}}]}`, `{"tools":[{"inputSchema":{"type":"object"},"name":"a"},{"inputSchema":{"type":"object"}}]}`},
		{`{"tools":[7, {"inputSchema":{"type":"object"}}]}`, `{"tools":[7, {"inputSchema":{"type":"object"}}]}`},
		{`{"tools":{}}`, `{"tools":{}}`},
		{`[]`, `[]`},
	} {
		got, changed := repairSchemas(jsonx.Value(c.in))
		if string(got) != c.want || changed != (c.in != c.want) {
			t.Errorf("%s:\n got %s, changed %t\nwant %s", c.in, got, changed, c.want)
		}
	}
}

// TestRepairAfterMutation: a mutator cannot leave a tool without a schema; an untouched list is repaired by the setting.
func TestRepairAfterMutation(t *testing.T) {
	t.Parallel()
	p := &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == methodToolsList && phase == schemas.PhaseResponse
		},
		run: func(_ context.Context, in chain.Input) chain.Result {
			return chain.Result{Modified: true, Payload: replace(in.Payload, `"inputSchema"`, `"schema"`)}
		},
	}
	eachWay(t, p, func(t *testing.T, w way) {
		t.Helper()
		tools, err := w.connect(t, nil).ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) == 0 {
			t.Fatalf("list: %v", err)
		}
		for _, tool := range tools.Tools {
			if schema, _ := tool.InputSchema.(map[string]any); schema["type"] != "object" {
				t.Errorf("%s: schema %v", tool.Name, tool.InputSchema)
			}
		}
		rec := w.ledger.waitOutcome(t, methodToolsList, schemas.OutcomeAllowed)
		last := rec.Event.Invocations[len(rec.Event.Invocations)-1]
		if last.Interceptor != amendSchemas {
			t.Errorf("last invocation %+v", last)
		}
	})
	for version, want := range map[string]bool{legacy: false, version20260728: true} {
		if got := RepairSchemas("").applies(version); got != want {
			t.Errorf("%s: repaired %t", version, got)
		}
	}
	if !RepairAlways.applies(legacy) || RepairNever.applies(version20260728) {
		t.Error("always or never does not hold")
	}
}
