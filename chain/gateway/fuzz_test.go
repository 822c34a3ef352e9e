package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
)

// FuzzLink: whatever both sides say, nothing panics, every exchange has one request event and one
// outcome, and a request with an id that can be read is answered at most once.
func FuzzLink(f *testing.F) {
	request, answer := odd()
	f.Add([]byte(request), []byte(answer), false)
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","id":1,"method":"x"},7]`), []byte(`[{"jsonrpc":"2.0","id":1,"result":{}}]`), true)
	f.Add([]byte(pingText+"\n"+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`), []byte(`{"jsonrpc":"2.0","id":99,"error":{}}`), true)
	f.Add([]byte(`{"jsonrpc":"2.0","id":"r","result":{"a":1}}`), []byte(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`), true)
	f.Add([]byte("{{{\n\xff\n"+pingText), []byte(`{"jsonrpc":"2.0","id":99,"result":{"a":1,"a":2}}`), false)
	f.Fuzz(func(t *testing.T, fromClient, fromServer []byte, planned bool) {
		l := newLedger()
		b := Backend{Name: "b", URL: "http://127.0.0.1:1"}
		if planned {
			b.Plan = planOf(&fakePlan{run: func(_ context.Context, in chain.Input) chain.Result {
				if len(in.Payload)%3 == 0 {
					return deny(in)
				}
				return chain.Result{Modified: len(in.Payload)%2 == 0, Payload: in.Payload}
			}})
		}
		g, err := New(Options{Recorder: l, Backends: []Backend{b}, MaxPending: 4})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		client := wire.NewLineConn(bytes.NewReader(fromClient), nopWriteCloser{&out}, nil)
		server := wire.NewLineConn(bytes.NewReader(fromServer), nopWriteCloser{io.Discard}, nil)
		k := newLink(g.table.Load().lanes["b"], newSession("", &g.opts.Key, 4), arrival{transport: "stdio"}, stdioPort{client}, server)
		reply := func(raw []byte) {
			if raw != nil {
				_ = client.Send(t.Context(), raw, nil)
			}
		}
		from := k.base
		from.reply = reply
		_ = client.Receive(t.Context(), func(raw []byte) { k.fromClient(t.Context(), raw, from) }, nil)
		_ = server.Receive(t.Context(), func(raw []byte) { k.fromServer(t.Context(), raw) }, nil)
		k.end(t.Context(), nil, errSessionEnded)
		if n := g.Open(); n != 0 {
			t.Errorf("%d exchanges are open", n)
		}
		l.check(t)
		for line := range bytes.SplitSeq(out.Bytes(), []byte("\n")) {
			if _, err := wire.Parse(line, wire.Limits{Lenient: true}); len(line) > 0 && err != nil {
				if _, isBatch := err.(*wire.BatchError); !isBatch { //nolint:errorlint // Parse returns it bare
					t.Errorf("the client got %q: %v", line, err)
				}
			}
		}
	})
}

// FuzzFacts: what is read from params never panics and never reads past them.
func FuzzFacts(f *testing.F) {
	f.Add([]byte(`{"name":"n","uri":"u","_meta":{"traceparent":"`+traceparent+`"},"requestState":"s","clientInfo":{"name":"c"}}`), "tools/call")
	f.Add([]byte(`{"name":"t","arguments":{"a":1},"tools":[{"name":"t","inputSchema":{"properties":{"a":{"x-mcp-header":"A"}}}}]}`), "tools/list")
	f.Add([]byte(`{"_meta":[],"clientInfo":7,"protocolVersion":"x"}`), "initialize")
	f.Fuzz(func(_ *testing.T, params []byte, method string) {
		msg, err := wire.Parse(wire.NewRequest([]byte("1"), method, params), wire.Limits{})
		if err != nil {
			return
		}
		fs := factsOf(&msg)
		wire.Trace(fs.meta.Traceparent)
		wire.IsToolError(msg.Params)
		stateOf(msg.Params)
		newNameSet().learn(methodToolsList, msg.Params)
		repeated("Mcp-Param-X", "y", arguments(msg.Params))
		bound := newBindingTable()
		bound.learn(msg.Params)
		for tool := range bound.tools {
			bound.mirror(http.Header{}, wire.WithMember(msg.Params, "name", wire.NewRequest(nil, tool, nil)))
		}
	})
}

// FuzzPlaces: no path leads to another backend or out of the well-known places; no event id is taken
// for another.
func FuzzPlaces(f *testing.F) {
	f.Add("/.well-known/oauth-protected-resource/b/mcp")
	f.Add("/b/mcp/.well-known/openid-configuration")
	f.Add("12_34")
	f.Fuzz(func(t *testing.T, in string) {
		if p, ok := placeOf(in, "only"); ok && (strings.ContainsAny(p.name, "/%?#\\") || strings.Contains(p.name, "..") && p.name[0] == '.') {
			t.Errorf("%q leads to %+v", in, p)
		}
		if number, seq, ok := parseEventID(in); ok {
			s := &stream{number: number}
			if n, m, ok := parseEventID(s.eventID(seq)); !ok || n != number || m != seq {
				t.Errorf("%q is read as %d, %d, and that as %d, %d", in, number, seq, n, m)
			}
		}
	})
}
