package chain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// The record says why a handler failed, which stands in the data of its error; the caller is not told.
func TestReasonOfAFailure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, data, want string }{
		{"a reason", `{"interceptor":"v","reason":"no database"}`, "JSON-RPC error -32603: m: no database"},
		{"none", `{"interceptor":"v"}`, "JSON-RPC error -32603: m"},
		{"no data", ``, "JSON-RPC error -32603: m"},
		{"no object", `["reason"]`, "JSON-RPC error -32603: m"},
		{"no text", `{"reason":{"a":1}}`, "JSON-RPC error -32603: m"},
		{"said already", `{"reason":"m"}`, "JSON-RPC error -32603: m"},
		{"too long", `{"reason":"` + strings.Repeat("é", 2_000) + `"}`, "JSON-RPC error -32603: m: " + strings.Repeat("é", 512) + "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &script{list: descriptor("v", "validation", ""), invoke: func(context.Context, jsonx.Value) (jsonx.Value, error) {
				return nil, &wire.RPCError{Code: wire.CodeInternal, Message: "m", Data: jsonx.Value(test.data)}
			}}
			got := planOf(t, chain.Config{}, s.host()).Run(t.Context(), input("tools/call"))
			if len(got.Details) != 1 || got.Details[0].Error != test.want {
				t.Errorf("recorded is %+v, want %q", got.Details, test.want)
			}
			if got.Denial == nil || strings.Contains(string(got.Denial.Data), "database") {
				t.Errorf("the caller is told %+v", got.Denial)
			}
		})
	}
}
