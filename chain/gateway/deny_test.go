package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// TestDeniedByResult: a real client gets a tool result that says who denied what, for tools only.
func TestDeniedByResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		detail  chain.DenyDetail
		want    string
		private string // must not be told
	}{
		{chain.DenySEP, "Interceptor validation failed\nacme/dlp: no evil", "evil plan"},
		{chain.DenyGeneric, "Blocked by policy", "acme"},
	} {
		t.Run(string(c.detail), func(t *testing.T) {
			t.Parallel()
			eachWayWith(t, func(o *Options) {
				o.Rules.DenyAs = DenyAsResult
				o.Backends[0].Plan = realPlanWith(t, chain.Config{Server: "b", DenyDetail: c.detail})
			}, func(t *testing.T, w way) {
				t.Helper()
				cs := w.connect(t, nil)
				res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "an evil plan"}})
				if got := textOf(t, res, err); got != c.want || !res.IsError {
					t.Errorf("got %q, is error %t; want %q", got, res.IsError, c.want)
				}
				raw, err := jsonx.Marshal(res)
				if err != nil || strings.Contains(string(raw), c.private) {
					t.Errorf("the result tells %q: %s", c.private, raw)
				}
				d := w.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeDenied).Event.Decision
				if !d.IsError || d.ErrorCode != 0 || d.AbortedAt != "acme/dlp" {
					t.Errorf("decision %+v", d)
				}
			})
		})
	}
}

// TestOtherMethodsAreDeniedByError: only a tool call has a result that can say no.
func TestOtherMethodsAreDeniedByError(t *testing.T) {
	t.Parallel()
	p := &fakePlan{run: func(_ context.Context, in chain.Input) chain.Result { return deny(in) }}
	eachWayWith(t, func(o *Options) {
		o.Rules.DenyAs = DenyAsResult
		o.Backends[0].Plan = planOf(p)
	}, func(t *testing.T, w way) {
		t.Helper()
		_, err := w.connect(t, nil).ListTools(t.Context(), nil)
		rpc, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || rpc.Code != wire.CodeInvalidParams {
			t.Errorf("got %v, want error %d", err, wire.CodeInvalidParams)
		}
	})
}

func TestDenialText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ data, want string }{
		{``, "No"},
		{`{"validationErrors":[{"interceptor":"a","severity":"error","message":"x"},{"interceptor":"b","message":"y"}]}`, "No\na: x\nb: y"},
		{`{"failedInterceptor":"m","reason":"the interceptor failed"}`, "No\nm: the interceptor failed"},
		{`{"interceptor":"v","timeoutMs":5,"phase":"request","reason":"timeout"}`, "No\nv: timeout"},
		{`[1,"odd"]`, "No"},
	} {
		e := &wire.RPCError{Code: -1, Message: "No", Data: jsonx.Value(c.data)}
		if got := denialText(e); got != c.want {
			t.Errorf("%s: got %q, want %q", c.data, got, c.want)
		}
		result := denialResult(e, true)
		if _, err := jsonx.Verify(result, 0); err != nil {
			t.Errorf("%s: the result %s: %v", c.data, result, err)
		}
	}
	e := &wire.RPCError{Message: "\xff"}
	if traits, err := jsonx.Verify(denialResult(e, false), 0); err != nil || traits != (jsonx.Traits{}) {
		t.Errorf("a message that is not UTF-8: %v", err)
	}
}

func TestRulesAreChecked(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Recorder: newLedger(), Backends: []Backend{{Name: "b", URL: "http://127.0.0.1:1/"}}, Rules: Rules{DenyAs: "silence"}})
	if err == nil || !strings.Contains(err.Error(), `deny as "silence"`) {
		t.Errorf("got %v", err)
	}
}
