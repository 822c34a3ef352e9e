package interop_test

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// maxMessage bounds a message in these tests.
const maxMessage = 1 << 20

// badCase is one thing that a client, a server or an interceptor does wrong, or oddly but validly.
type badCase struct {
	name string
	raw  string // of the client; empty: a good call
	says func(id string) reply
	mind *fickle // what the interceptor does

	code   int    // of the error that the client gets; 0: the answer is the server's, byte for byte
	id     string // of the error; empty: that of a good call
	record string // outcome that is recorded
	lean   string // the same from stdio to HTTP, where an own client reads the answers; empty: record
	silent bool   // nothing is answered
	passes bool   // raw arrives at the server byte for byte
	ends   bool   // the server behind a stdio transport is gone: so is the session
	only   string // transport behind, where the case exists; empty: both
}

const goodCall = `{"jsonrpc":"2.0","id":"good","method":"tools/call","params":{"name":"t"}}`

func goodAnswer(id string) reply {
	return say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"ok":true}}`)
}

// TestBadInput: whatever is wrong, whoever did it, over every pair of transports: a JSON-RPC error
// where one is due, under the id of the request, an event, and the session and its neighbour go on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	cases := slices.Concat(badRequests(), badAnswers(), badInterceptors())
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			passed, total := 0, 0
			for _, c := range cases {
				if c.only != "" && c.only != w.back {
					continue
				}
				total++
				if t.Run(c.name, func(t *testing.T) { runBad(t, w, &c) }) {
					passed++
				}
			}
			chaintest.Report(t, "bad input", w.String(), passed, total)
		})
	}
}

// runBad runs one case in a world of its own.
func runBad(t *testing.T, w way, c *badCase) {
	t.Helper()
	var says atomic.Pointer[func(id string) reply]
	good := goodAnswer
	says.Store(&good)
	p := newPeer(t, func(msg *wire.Message) reply {
		switch {
		case msg.ID == nil || msg.Kind != wire.KindRequest:
			return reply{}
		case string(msg.ID) == `"good"` && c.raw != "", string(msg.ID) == `"neighbour"`:
			return goodAnswer(string(msg.ID))
		default:
			return (*says.Load())(string(msg.ID))
		}
	})
	f := newFickle(t, c.mind != nil && c.mind.hang)
	b := p.backend(t, w.back)
	b.Plan = f.plan(t)
	o := newWorld(t, w, b, func(opts *gateway.Options) { opts.MaxMessage = maxMessage })
	me, neighbour := o.newClient(t, "me"), o.newClient(t, "neighbour")
	if c.says != nil {
		says.Store(&c.says)
	}
	if c.mind != nil {
		f.set(*c.mind)
	}
	raw := c.raw
	if raw == "" {
		raw = goodCall
	}
	c.checkAnswer(t, me, []byte(raw), *says.Load())
	if c.passes && !slices.Contains(p.requests(), c.raw) {
		t.Errorf("at the server there is %.300q, want %.300q", p.requests(), c.raw)
	}
	if !c.passes && c.raw != "" && slices.Contains(p.requests(), c.raw) {
		t.Errorf("the server got it")
	}
	record := c.record
	if c.lean != "" && w == (way{overStdio, overHTTP}) {
		record = c.lean
	}
	o.ledger.waitOutcome(t, record)
	says.Store(&good)
	f.set(fickle{})
	f.waitReady(t, b.Plan())
	if !c.ends || w.back != overStdio {
		checkGood(t, me, "after")
	}
	checkGood(t, neighbour, "neighbour")
}

func (c *badCase) checkAnswer(t *testing.T, me *client, raw []byte, says func(string) reply) {
	t.Helper()
	if c.silent {
		me.send(t, raw)
		return
	}
	answer := me.call(t, raw)
	if c.code == 0 {
		msg, _ := wire.Parse(raw, wire.Limits{MaxDepth: 1 << 20})
		expected := says(string(msg.ID)).lines
		if !slices.ContainsFunc(expected, func(line []byte) bool { return bytes.Equal(line, answer) }) {
			t.Errorf("answer is %.300s, want one of %.300s", answer, expected)
		}
		return
	}
	msg, err := wire.Parse(answer, wire.Limits{})
	id := c.id
	if id == "" {
		id = `"good"`
	}
	if rpc := msg.RPCError(); err != nil || rpc == nil || rpc.Code != c.code || string(msg.ID) != id {
		t.Errorf("answer is %.300s, want an error %d under the id %s", answer, c.code, id)
	}
}

// checkGood makes a call that has to work.
func checkGood(t *testing.T, c *client, id string) {
	t.Helper()
	id = `"` + id + `"`
	answer := c.call(t, wire.NewRequest(jsonx.Value(id), "tools/call", jsonx.Value(`{"name":"t"}`)))
	if want := string(goodAnswer(id).lines[0]); string(answer) != want {
		t.Errorf("a call afterwards: got %.300s, want %s", answer, want)
	}
}

func badRequests() []badCase {
	call := func(id, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + params + `}`
	}
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	const malformed, passed = "other error malformed", "tools/call allowed "
	return []badCase{
		{name: "not JSON", raw: `{{{`, code: -32700, id: "null", record: malformed},
		{name: "cut short", raw: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":`, code: -32700, id: "7", record: malformed},
		{name: "two values", raw: goodCall + goodCall, code: -32700, id: `"good"`, record: malformed},
		{name: "a number", raw: `7`, code: -32600, id: "null", record: malformed},
		{name: "null", raw: `null`, code: -32600, id: "null", record: malformed},
		{name: "empty batch", raw: `[]`, code: -32600, id: "null", record: malformed},
		{name: "byte order mark", raw: "\ufeff" + goodCall, code: -32700, id: "null", record: malformed},
		{name: "a NUL", raw: "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\x00b\"}", code: -32700, id: "7", record: malformed},
		{name: "method is a number", raw: `{"jsonrpc":"2.0","id":"m","method":7}`, code: -32600, id: `"m"`, record: malformed},
		{name: "params are text", raw: call("7", `"text"`), code: -32600, id: "7", record: malformed},
		{name: "no jsonrpc", raw: `{"id":7,"method":"tools/call"}`, code: -32600, id: "7", record: malformed},
		{name: "id is an object", raw: call(`{"a":1}`, `{}`), code: -32600, id: "null", record: malformed},
		{name: "id is null", raw: call(`null`, `{}`), code: -32600, id: "null", record: malformed},
		{name: "call and answer", raw: `{"jsonrpc":"2.0","id":7,"method":"x","result":{}}`, code: -32600, id: "7", record: malformed},
		{name: "duplicate names", raw: call("7", `{"name":"t","name":"u"}`), code: -32700, id: "7", record: malformed},
		{name: "duplicate names, escaped", raw: call("7", `{"name":"t","n\u0061me":"u"}`), code: -32700, id: "7", record: malformed},
		{name: "invalid UTF-8", raw: call("7", "{\"name\":\"\xff\"}"), code: -32700, id: "7", record: malformed},
		{name: "nested too deep", raw: call("7", `{"a":`+nest(5000)+`}`), code: -32700, id: "7", record: malformed},
		{name: "too large", raw: call("7", `{"a":"`+strings.Repeat("x", maxMessage)+`"}`), code: -32600, id: "null", record: "other denied too_large"},
		{name: "an answer to an unknown id", raw: `{"jsonrpc":"2.0","id":99,"result":{}}`, silent: true, record: "other denied stray"},
		{name: "an error for an unknown id", raw: `{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"no"}}`, silent: true, record: "other denied stray"},
		{name: "lone surrogates", raw: call(`"\ud83d"`, `{"name":"\udc00","\ud800":1}`), passes: true, record: passed},
		{name: "huge numbers", raw: call("9007199254740993", `{"a":1e400,"b":-0,"c":1.0,"d":123456789012345678901234567890}`), passes: true, record: passed},
		{name: "nested deep", raw: call("7", `{"a":`+nest(900)+`}`), passes: true, record: passed},
		{name: "white space and unknown members", raw: `{ "x-more":[1 , 2],"method":"tools/call" , "id":7,"params":{"name":"t"}, "jsonrpc":"2.0" }`, passes: true, record: passed},
		{name: "unknown method", raw: `{"jsonrpc":"2.0","id":7,"method":"x/y","params":{"z":1}}`, passes: true, record: "other error ", says: func(id string) reply {
			return say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"Method not found","data":{"x":[1]},"more":true}}`)
		}},
	}
}

func badAnswers() []badCase {
	answer := func(format string) func(string) reply {
		return func(id string) reply { return say(strings.ReplaceAll(format, "ID", id)) }
	}
	nest := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	const malformed, lost = "tools/call error malformed", "tools/call error backend_lost"
	return []badCase{
		{name: "server: not JSON", says: answer(`{{{`), only: overHTTP, code: -32603, record: malformed, lean: "other error malformed"},
		{name: "server: noise, then the answer", only: overStdio, record: "tools/call allowed ", says: func(id string) reply {
			return say(`starting up ...`, string(goodAnswer(id).lines[0]))
		}},
		{name: "server: another id", says: answer(`{"jsonrpc":"2.0","id":"other","result":{}}`), only: overHTTP, code: -32603, record: malformed, lean: "other denied stray"},
		{name: "server: another id first", record: "other denied stray", says: func(id string) reply {
			return say(`{"jsonrpc":"2.0","id":"other","result":{}}`, string(goodAnswer(id).lines[0]))
		}},
		{name: "server: answers twice", record: "other denied stray", lean: "tools/call allowed ", says: func(id string) reply {
			return say(string(goodAnswer(id).lines[0]), `{"jsonrpc":"2.0","id":`+id+`,"result":{"second":true}}`)
		}},
		{name: "server: result and error", says: answer(`{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":""}}`), code: -32603, record: malformed},
		{name: "server: no jsonrpc", says: answer(`{"id":ID,"result":{}}`), code: -32603, record: malformed},
		{name: "server: duplicate names", says: answer(`{"jsonrpc":"2.0","id":ID,"result":{"a":1,"a":2}}`), code: -32603, record: malformed},
		{name: "server: invalid UTF-8", says: answer("{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"a\":\"\xff\"}}"), code: -32603, record: malformed},
		{name: "server: nested too deep", says: answer(`{"jsonrpc":"2.0","id":ID,"result":{"a":` + nest + `}}`), code: -32603, record: malformed},
		{name: "server: too large", says: answer(`{"jsonrpc":"2.0","id":ID,"result":{"a":"` + strings.Repeat("x", maxMessage) + `"}}`), code: -32603, record: "tools/call error too_large"},
		{name: "server: gone", says: func(string) reply { return reply{cut: true} }, code: -32603, record: lost, ends: true},
		{name: "server: gone in the middle", says: func(string) reply { return reply{lines: [][]byte{[]byte(`{"jsonrpc"`)}, cut: true} }, code: -32603, record: lost, ends: true},
		{name: "server: stream ends", only: overHTTP, says: func(string) reply {
			return reply{lines: [][]byte{[]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)}, sse: true}
		}, code: -32603, record: "tools/call error no_answer"},
		{name: "server: text", only: overHTTP, says: func(string) reply { return reply{lines: [][]byte{[]byte("hello")}, kind: "text/plain"} }, code: -32603, record: malformed, lean: "tools/call error no_answer"},
		{name: "server: unknown content, huge numbers, surrogates", record: "tools/call allowed ", says: answer(`{"result":{"content":[{"type":"hologram","n":1e400,"s":"\ud83d"}],"big":9007199254740993} , "id":ID,"jsonrpc":"2.0","more":[ 1 ]}`)},
	}
}

func badInterceptors() []badCase {
	const denied, allowed = "tools/call denied ", "tools/call allowed "
	result := func(text string) *fickle { return &fickle{result: text} }
	return []badCase{
		{name: "interceptor: not an object", mind: result(`7`), code: -32602, record: denied},
		{name: "interceptor: no verdict", mind: result(`{}`), code: -32602, record: denied},
		{name: "interceptor: wrong types", mind: result(`{"valid":"yes"}`), code: -32602, record: denied},
		{name: "interceptor: duplicate names", mind: result(`{"valid":true,"valid":false}`), code: -32602, record: denied},
		{name: "interceptor: of another call", mind: result(`{"interceptor":"x","valid":true}`), code: -32602, record: denied},
		{name: "interceptor: invalid UTF-8", mind: result("{\"valid\":true,\"info\":{\"a\":\"\xff\"}}"), code: -32602, record: denied},
		{name: "interceptor: an error", mind: &fickle{error: `{"code":-32603,"message":"no"}`}, code: -32602, record: denied},
		{name: "interceptor: times out", mind: &fickle{hang: true}, code: -32000, record: denied},
		{name: "interceptor: crashes", mind: &fickle{crash: true}, code: -32602, record: denied},
		{name: "interceptor: answers twice", mind: &fickle{lines: []string{
			`{"jsonrpc":"2.0","id":ID,"result":{"valid":true}}`,
			`{"jsonrpc":"2.0","id":ID,"result":{"valid":false,"severity":"error"}}`,
		}}, record: allowed},
		{name: "interceptor: noise and unknown ids first", mind: &fickle{lines: []string{
			`noise`,
			`{"jsonrpc":"2.0","id":"other","result":{"valid":true}}`,
			`{"jsonrpc":"2.0","id":ID,"result":{"valid":false,"severity":"error"}}`,
		}}, code: -32602, record: denied},
		{name: "interceptor: nested too deep", mind: result(`{"valid":true,"info":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`), code: -32602, record: denied},
	}
}

// TestReusedID: a second request under an id that is open is refused under that id, the first one is
// answered, and the id can be used again afterwards.
func TestReusedID(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			p := newPeer(t, func(msg *wire.Message) reply {
				if msg.Method == "x/slow" {
					<-release
				}
				return goodAnswer(string(msg.ID))
			})
			o := newWorld(t, w, p.backend(t, w.back), nil)
			c := o.newClient(t, "me")
			slow := []byte(`{"jsonrpc":"2.0","id":7,"method":"x/slow"}`)
			var first []byte
			done := make(chan struct{})
			if c.lines != nil {
				c.send(t, slow)
				close(done)
			} else {
				other := *c
				go func() { defer close(done); first = other.post(t, slow) }() // exits with the answer
			}
			p.waitGot(t, slow)
			refused, err := wire.Parse(c.call(t, []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`)), wire.Limits{})
			if rpc := refused.RPCError(); err != nil || rpc == nil || rpc.Code != -32600 || string(refused.ID) != "7" {
				t.Errorf("the second request got %s", refused.Raw)
			}
			o.ledger.waitOutcome(t, "tools/call denied reused_id")
			close(release)
			<-done
			if c.lines != nil {
				first = c.next(t)
			}
			want := string(goodAnswer("7").lines[0])
			if string(first) != want {
				t.Errorf("the first request got %s", first)
			}
			if again := c.call(t, []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)); string(again) != want {
				t.Errorf("the id used again got %s", again)
			}
		})
	}
}
