package chain_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// foreign serves one validator over pipes and gives the same raw result to each invocation.
func foreign(result string) func(r, w *os.File) {
	return func(r, w *os.File) {
		defer func() { _ = w.Close() }()
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			line := jsonx.Value(lines.Bytes())
			id, ok := wire.Member(line, "id")
			if !ok {
				continue
			}
			answer := result
			switch method, _ := wire.MemberString(line, "method"); method {
			case "initialize":
				answer = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"f","version":"1"}}`
			case "interceptors/list":
				answer = `{"interceptors":[` + descriptor("v", "validation", "") + `]}`
			}
			if _, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, answer); err != nil {
				return
			}
		}
	}
}

// What a result may not be is refused whoever checks it: the connection, or, where that lets it pass, the plan.
func TestStrictResultsOverTheWire(t *testing.T) {
	t.Parallel()
	for _, lenient := range []bool{false, true} {
		for result, want := range map[string]schemas.InvocationState{
			`{"valid":true}`:                               schemas.StateFinished,
			`{"valid":true,"info":{"a":"\ud83d"}}`:         schemas.StateFinished,
			`{"valid":false,"valid":true}`:                 schemas.StateMalformed,
			`{"valid":true,"info":{"a":1,"a":2}}`:          schemas.StateMalformed,
			"{\"valid\":true,\"info\":\"\xff\"}":           schemas.StateMalformed,
			`{"valid":true,"info":` + nest(2000) + `}`:     schemas.StateMalformed,
			`{"valid":true,"validation":{"valid":"true"}}`: schemas.StateMalformed,
		} {
			t.Run(fmt.Sprintf("lenient %v/%.30q", lenient, result), func(t *testing.T) {
				t.Parallel()
				plan := planOf(t, chain.Config{}, chain.HostSpec{
					Ref: schemas.HostRef{Host: "h"},
					Connect: chain.Remote(overPipes(t, foreign(result)),
						&wire.ClientOptions{Limits: wire.Limits{Lenient: lenient}}),
				})
				got := plan.Run(t.Context(), input("tools/call"))
				inv := got.Invocations[0]
				if inv.State != want || (got.Denial == nil) != (want == schemas.StateFinished) {
					t.Errorf("state %s, denial %+v; want %s", inv.State, got.Denial, want)
				}
				if _, err := jsonx.Marshal(&schemas.Detail{Invocations: got.Details}); err != nil {
					t.Errorf("details do not encode: %v", err)
				}
			})
		}
	}
}

func nest(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
