package gateway

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// ends are the two ends of a link, for tests that decide each line.
type ends struct {
	*ledger
	client, server *wire.LineConn
}

func (e *ends) say(t *testing.T, c *wire.LineConn, raw string) {
	t.Helper()
	if err := c.Send(t.Context(), []byte(raw), nil); err != nil {
		t.Fatalf("send %s: %v", raw, err)
	}
}

func (e *ends) hear(t *testing.T, c *wire.LineConn, want string) {
	t.Helper()
	raw, err := c.ReadMessage()
	if err != nil {
		t.Fatalf("waiting for %s: %v", want, err)
	}
	if string(raw) != want {
		t.Errorf("got %s, want %s", raw, want)
	}
}

func newEnds(t *testing.T, opts Options) *ends {
	t.Helper()
	e := &ends{ledger: newLedger()}
	opts.Recorder = e.ledger
	opts.Backends = []Backend{{Name: "b", Command: []string{"unused"}}}
	g, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	pipe := func() (ours, theirs *wire.LineConn) {
		aR, aW := io.Pipe()
		bR, bW := io.Pipe()
		line := &wire.LineOptions{MaxMessage: int(g.opts.MaxMessage)}
		return wire.NewLineConn(aR, bW, line), wire.NewLineConn(bR, aW, nil)
	}
	front, client := pipe()
	back, server := pipe()
	e.client, e.server = client, server
	k := newLink(g.table.Load().lanes["b"], newSession("", &g.opts.Key, g.opts.MaxPending), arrival{transport: "stdio"}, stdioPort{front}, back)
	done := make(chan error, 1)
	go func() { done <- k.serveLines(t.Context(), front, func(context.Context) { _ = back.Close() }) }()
	t.Cleanup(func() {
		_ = client.Close()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) { // t.Context ends before
			t.Errorf("serveLines: %v", err)
		}
		_ = server.Close()
		_ = front.Close()
		e.check(t)
	})
	return e
}

// TestServerCancels: a server that gives up its own request is told nothing more, and the client's
// late answer goes nowhere.
func TestServerCancels(t *testing.T) {
	t.Parallel()
	e := newEnds(t, Options{})
	ask, cancel := `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`
	e.say(t, e.server, ask)
	e.hear(t, e.client, ask)
	e.say(t, e.server, cancel)
	e.hear(t, e.client, cancel)
	e.say(t, e.client, `{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}`)
	e.say(t, e.client, `{"jsonrpc":"2.0","method":"notifications/x"}`)
	e.hear(t, e.server, `{"jsonrpc":"2.0","method":"notifications/x"}`)
	e.say(t, e.server, cancel) // once more: it is over
	e.say(t, e.server, `{"jsonrpc":"2.0","method":"notifications/y"}`)
	e.hear(t, e.client, `{"jsonrpc":"2.0","method":"notifications/y"}`)
	if diff := cmp.Diff([]string{"request roots/list", "outcome roots/list cancelled ", "request other", "outcome other denied stray"}, e.lines()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestSameIDs: the ids of both directions are apart.
func TestSameIDs(t *testing.T) {
	t.Parallel()
	e := newEnds(t, Options{})
	call, ask := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	e.say(t, e.client, call)
	e.hear(t, e.server, call)
	e.say(t, e.server, ask)
	e.hear(t, e.client, ask)
	e.say(t, e.client, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
	e.hear(t, e.server, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
	e.say(t, e.client, call) // its id is in use
	raw, err := e.client.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	if msg := mustParse(t, raw); msg.RPCError() == nil || string(msg.ID) != "1" {
		t.Errorf("reused id: got %s", raw)
	}
	e.say(t, e.server, `{"jsonrpc":"2.0","id":1,"result":{"ok":true}}`)
	e.hear(t, e.client, `{"jsonrpc":"2.0","id":1,"result":{"ok":true}}`)
	e.say(t, e.server, `{"jsonrpc":"2.0","id":1,"result":{"ok":"again"}}`)
	e.say(t, e.server, `{"jsonrpc":"2.0","method":"notifications/y"}`)
	e.hear(t, e.client, `{"jsonrpc":"2.0","method":"notifications/y"}`)
}

// TestTooLarge: a line over the limit is refused or, from the server, ends the only open request;
// the session lives on.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	e := newEnds(t, Options{MaxMessage: 1_000})
	big := strings.Repeat("x", 2_000)
	e.say(t, e.client, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+big+`"}}`)
	raw, err := e.client.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	if msg := mustParse(t, raw); msg.RPCError() == nil || !strings.Contains(msg.RPCError().Message, "1000") {
		t.Errorf("got %s, want an error that names the limit", raw)
	}
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`
	e.say(t, e.client, call)
	e.hear(t, e.server, call)
	e.say(t, e.server, `{"jsonrpc":"2.0","id":2,"result":{"s":"`+big+`"}}`)
	raw, err = e.client.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	if msg := mustParse(t, raw); msg.RPCError() == nil || string(msg.ID) != "2" {
		t.Errorf("got %s, want an error for 2", raw)
	}
	if rec := e.waitOutcome(t, methodToolsCall, schemas.OutcomeError); rec.Event.Decision.Cause != causeTooLarge {
		t.Errorf("cause %q", rec.Event.Decision.Cause)
	}
}
