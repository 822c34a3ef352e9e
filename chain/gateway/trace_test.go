package gateway

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/schemas"
)

// TestOneTraceThroughTwoGateways: where the client brings no trace one is made, and the gateway behind records the same.
func TestOneTraceThroughTwoGateways(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "stateless"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			version := legacy
			if kind == "stateless" {
				version = version20260728
			}
			inner := serve(t, Options{Backends: []Backend{backend(t, kind, nil)}})
			outer := serve(t, Options{Backends: []Backend{{Name: "b", URL: inner.url}}})
			if _, err := connect(t, outer.url, nil, version).CallTool(t.Context(), &mcp.CallToolParams{Name: "echo"}); err != nil {
				t.Fatal(err)
			}
			a := outer.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed).Event.Correlation
			b := inner.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed).Event.Correlation
			if a.TraceID == "" || a.TraceID != b.TraceID {
				t.Errorf("traces %q and %q, want one", a.TraceID, b.TraceID)
			}
		})
	}
}
