package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// judged is what matters of a result of one interceptor.
type judged struct {
	Status schemas.Status
	State  schemas.InvocationState
	Counts [3]int // errors, warnings, infos
	Denied string // type and code; empty: passed
}

func judge(r *chain.Result) judged {
	j := judged{Status: r.Status, State: r.Invocations[0].State, Counts: [3]int{r.Errors, r.Warnings, r.Infos}}
	if r.Denial != nil {
		j.Denied = fmt.Sprint(r.Denial.Type, " ", r.Denial.Code)
	}
	return j
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	const (
		blocked = "validation -32602"
		ok      = schemas.StatusSuccess
		no      = schemas.StatusValidationFailed
		done    = schemas.StateFinished
		bad     = schemas.StateMalformed
	)
	for _, test := range []struct {
		name   string
		answer string
		want   judged
		open   judged // with failOpen; zero: the same
	}{
		{name: "passes", answer: `{"valid":true}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "passes with findings", answer: `{"valid":true,"messages":[{"message":"m","severity":"warn"},{"message":"m"}]}`, want: judged{ok, done, [3]int{0, 1, 1}, ""}},
		{name: "severity error", answer: `{"valid":false,"severity":"error"}`, want: judged{no, done, [3]int{1, 0, 0}, blocked}},
		{name: "severity warn", answer: `{"valid":false,"severity":"warn"}`, want: judged{ok, done, [3]int{0, 1, 0}, ""}},
		{name: "severity info", answer: `{"valid":false,"severity":"info"}`, want: judged{ok, done, [3]int{0, 0, 1}, ""}},
		{name: "severity missing", answer: `{"valid":false}`, want: judged{no, bad, [3]int{1, 0, 0}, blocked}},
		{name: "severity null", answer: `{"valid":false,"severity":null}`, want: judged{no, bad, [3]int{1, 0, 0}, blocked}},
		{name: "severity unknown", answer: `{"valid":false,"severity":"fatal"}`, want: judged{no, done, [3]int{1, 0, 0}, blocked}},
		{name: "severity in another case", answer: `{"valid":false,"severity":"Warn"}`, want: judged{no, done, [3]int{1, 0, 0}, blocked}},
		{name: "severity of wrong type", answer: `{"valid":false,"severity":1}`, want: judged{no, bad, [3]int{1, 0, 0}, blocked}},
		{name: "a message of severity error", answer: `{"valid":false,"severity":"info","messages":[{"message":"m","severity":"error"}]}`, want: judged{no, done, [3]int{1, 0, 0}, blocked}},
		{name: "a message of unknown severity", answer: `{"valid":false,"severity":"info","messages":[{"message":"m","severity":"x"}]}`, want: judged{no, done, [3]int{1, 0, 0}, blocked}},
		{name: "warnings only", answer: `{"valid":false,"severity":"warn","messages":[{"message":"m","severity":"info"}]}`, want: judged{ok, done, [3]int{0, 0, 1}, ""}},
		{name: "messages null", answer: `{"valid":true,"messages":null,"suggestions":null}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "no, and messages malformed", answer: `{"valid":false,"severity":"warn","messages":"oops"}`, want: judged{no, bad, [3]int{0, 1, 0}, blocked}},
		{name: "yes, and messages malformed", answer: `{"valid":true,"messages":"oops"}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "nested no", answer: `{"validation":{"valid":false,"severity":"error"}}`, want: judged{no, done, [3]int{1, 0, 0}, blocked}},
		{name: "nested yes", answer: `{"validation":{"valid":true},"payload":{}}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "flat yes, nested no", answer: `{"valid":true,"validation":{"valid":false,"severity":"info"}}`, want: judged{no, bad, [3]int{0, 0, 1}, blocked}},
		{name: "full echo", answer: `{"type":"validation","interceptor":"v","phase":"request","valid":true}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "echo with escapes", answer: `{"interceptor":"\u0076","valid":true}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "other interceptor", answer: `{"interceptor":"w","valid":true}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "other type", answer: `{"type":"mutation","valid":true}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "other phase", answer: `{"phase":"response","valid":true}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "phase of wrong type", answer: `{"phase":[],"valid":true}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "valid missing", answer: `{"severity":"info"}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "valid in another case", answer: `{"Valid":true}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "valid a string", answer: `{"valid":"true"}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "duplicate valid", answer: `{"valid":false,"valid":true}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "invalid UTF-8", answer: "{\"valid\":true,\"info\":\"\xff\"}", want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "lone surrogate", answer: `{"valid":true,"info":"\ud83d"}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "not an object", answer: `true`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "not JSON", answer: `{`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "empty", answer: ``, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "too deep", answer: `{"valid":true,"info":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, want: judged{no, bad, [3]int{}, blocked}, open: judged{ok, bad, [3]int{}, ""}},
		{name: "error", answer: `fail`, want: judged{no, schemas.StateFailed, [3]int{}, blocked}, open: judged{ok, schemas.StateFailed, [3]int{}, ""}},
		{name: "panic", answer: `panic`, want: judged{no, schemas.StateFailed, [3]int{}, blocked}, open: judged{ok, schemas.StateFailed, [3]int{}, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for more, want := range map[string]judged{"": test.want, `,"failOpen":true`: test.open} {
				if want == (judged{}) {
					want = test.want
				}
				s := &script{list: descriptor("v", "validation", more), invoke: answers(map[string]string{"v": test.answer})}
				got := planOf(t, chain.Config{}, s.host()).Run(t.Context(), input("tools/call"))
				if diff := cmp.Diff(want, judge(&got)); diff != "" {
					t.Errorf("with %q (-want +got):\n%s", more, diff)
				}
				if _, err := jsonx.Marshal(&schemas.Detail{Invocations: got.Details}); err != nil {
					t.Errorf("details do not encode: %v", err)
				}
			}
		})
	}
}

func TestMutations(t *testing.T) {
	t.Parallel()
	const (
		blocked = "mutation -32603"
		ok      = schemas.StatusSuccess
		no      = schemas.StatusMutationFailed
		done    = schemas.StateFinished
		bad     = schemas.StateMalformed
	)
	const sent = `{"a":1.0,"n":9007199254740993}`
	for _, test := range []struct {
		name    string
		answer  string
		payload string // what goes on; empty: what was sent
		want    judged
		more    string // of the descriptor
	}{
		{name: "modified", answer: `{"modified":true,"payload":{"b":2}}`, payload: `{"b":2}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "not modified, same payload", answer: `{"modified":false,"payload":` + sent + `}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "not modified, other spelling", answer: `{"modified":false,"payload":{ "n":9007199254740992,"a":1}}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "not modified, no payload", answer: `{"modified":false}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "not modified, other payload", answer: `{"modified":false,"payload":{"a":2}}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "not modified, lone surrogate", answer: `{"modified":false,"payload":{"a":"\ud83d"}}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "modified, no payload", answer: `{"modified":true}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "modified, null", answer: `{"modified":true,"payload":null}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "modified to another kind", answer: `{"modified":true,"payload":"x"}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "modified missing", answer: `{"payload":{"b":2}}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "nested", answer: `{"mutation":{"modified":true},"payload":{"b":2}}`, payload: `{"b":2}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "nested, not modified, other payload", answer: `{"mutation":{"modified":false},"payload":{"b":2}}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "flat and nested differ", answer: `{"modified":true,"mutation":{"modified":false},"payload":{"b":2}}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "enveloped answer", answer: `{"modified":true,"payload":{"method":"tools/call","params":{"b":2}}}`, payload: `{"b":2}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "enveloped answer, not modified", answer: `{"modified":false,"payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + sent + `}}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "params that look like another envelope", answer: `{"modified":true,"payload":{"method":"x","params":{"b":2}}}`, payload: `{"method":"x","params":{"b":2}}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "lone surrogate passes as it is", answer: `{"modified":true,"payload":{"b":"\ud83d"}}`, payload: `{"b":"\ud83d"}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "big integer passes as it is", answer: `{"modified":true,"payload":{"b":9007199254740993}}`, payload: `{"b":9007199254740993}`, want: judged{ok, done, [3]int{}, ""}},
		{name: "other interceptor", answer: `{"interceptor":"x","modified":true,"payload":{"b":2}}`, want: judged{no, bad, [3]int{}, blocked}},
		{name: "error", answer: `fail`, want: judged{no, schemas.StateFailed, [3]int{}, blocked}},
		{name: "panic", answer: `panic`, want: judged{no, schemas.StateFailed, [3]int{}, blocked}},
		{name: "error, fails open", answer: `fail`, more: `,"failOpen":true`, want: judged{ok, schemas.StateFailed, [3]int{}, ""}},
		{name: "malformed, fails open", answer: `{"modified":false,"payload":{"a":2}}`, more: `,"failOpen":true`, want: judged{ok, bad, [3]int{}, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &script{list: descriptor("m", "mutation", test.more), invoke: answers(map[string]string{"m": test.answer})}
			in := input("tools/call")
			in.Payload = jsonx.Value(sent)
			got := planOf(t, chain.Config{}, s.host()).Run(t.Context(), in)
			if diff := cmp.Diff(test.want, judge(&got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			want := test.payload
			if want == "" {
				want = sent
			}
			if string(got.Payload) != want || got.Modified != (test.payload != "") || string(in.Payload) != sent {
				t.Errorf("payload is %s (modified %v), want %s", got.Payload, got.Modified, want)
			}
		})
	}
}
