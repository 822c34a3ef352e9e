package interop_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/wire"
)

// way is a pair of transports: in front of the gateway and behind it.
type way struct{ front, back string }

func (w way) String() string { return w.front + " to " + w.back }

func ways() []way {
	return []way{{overHTTP, overHTTP}, {overHTTP, overStdio}, {overStdio, overHTTP}, {overStdio, overStdio}}
}

// world is a gateway with a plan between clients and one server.
type world struct {
	*gateway.Gateway
	way    way
	ledger *ledger
	url    string
}

// newWorld starts a gateway before b; config may change the options.
func newWorld(t *testing.T, w way, b gateway.Backend, config func(*gateway.Options)) *world {
	t.Helper()
	o := &world{way: w, ledger: newLedger()}
	opts := gateway.Options{
		Recorder: o.ledger, Backends: []gateway.Backend{b}, StopGrace: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if config != nil {
		config(&opts)
	}
	var err error
	if o.Gateway, err = gateway.New(opts); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(o.Handler())
	o.url = s.URL + "/" + b.Name + "/mcp"
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Errorf("close gateway: %v", err)
		}
		s.Close()
		o.ledger.check(t)
	})
	return o
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(b)))
	return len(b), nil
}

// planOf starts a set of interceptor servers; the plan it returns is for a backend.
func planOf(t *testing.T, config chain.Config, hosts ...chain.HostSpec) func() gateway.Plan {
	t.Helper()
	set, err := chain.NewSet(chain.SetOptions{Config: config, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		if err := set.Run(done); err != nil {
			t.Errorf("close set: %v", err)
		}
	})
	return func() gateway.Plan { return set.Current() }
}

// client is one MCP client that speaks raw bytes.
type client struct {
	world   *world
	session string // over HTTP; empty: none
	lines   *wire.LineConn
	in      io.WriteCloser
	status  int      // of the last HTTP answer
	before  [][]byte // notifications before the answer of the last call
}

// newClient makes a client in a session of its own. Over HTTP the session is named by the gateway
// where that makes sessions, else by name.
func (o *world) newClient(t *testing.T, name string) *client {
	t.Helper()
	c := &client{world: o, session: name}
	if o.way.front == overStdio {
		c.openLines(t)
	}
	if o.way != (way{overHTTP, overHTTP}) {
		c.session = ""
		answer := c.call(t, []byte(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
		if msg, err := wire.Parse(answer, wire.Limits{}); err != nil || msg.Kind != wire.KindResponse {
			t.Fatalf("initialize: got %s", answer)
		}
		c.send(t, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	}
	return c
}

func (c *client) openLines(t *testing.T) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { // exits when the client closes its side
		defer close(served)
		_ = c.world.ServeStdio(ctx, inR, outW)
		_ = outW.Close()
	}()
	c.in, c.lines = inW, wire.NewLineConn(outR, inW, &wire.LineOptions{MaxMessage: 256 << 20})
	t.Cleanup(func() {
		_ = inW.Close()
		_ = outR.Close()
		cancel()
		<-served
	})
}

// send writes a message that has no answer.
func (c *client) send(t *testing.T, raw []byte) {
	t.Helper()
	if c.lines == nil {
		c.post(t, raw)
		return
	}
	if _, err := c.in.Write(append(bytes.Clone(raw), '\n')); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// call sends a request and returns the raw answer.
func (c *client) call(t *testing.T, raw []byte) []byte {
	t.Helper()
	if c.lines == nil {
		return c.post(t, raw)
	}
	c.send(t, raw)
	c.before = nil
	for {
		line := c.next(t)
		if msg, err := wire.Parse(line, wire.Limits{}); err != nil || msg.Kind != wire.KindNotification {
			return line
		}
		c.before = append(c.before, line)
	}
}

// next reads a line.
func (c *client) next(t *testing.T) []byte {
	t.Helper()
	type result struct {
		raw []byte
		err error
	}
	got := make(chan result, 1)
	go func() {
		raw, err := c.lines.ReadMessage()
		got <- result{raw, err}
	}()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case r := <-got:
		if r.err != nil {
			t.Fatalf("read: %v", r.err)
		}
		return r.raw
	case <-limit.C:
		t.Fatalf("no answer within 20 s; recorded %q", c.world.ledger.outcomes())
		return nil
	}
}

// post makes one POST and returns the last message of the answer.
func (c *client) post(t *testing.T, raw []byte) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.world.url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", wire.ContentJSON)
	req.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	if c.session != "" {
		req.Header.Set(wire.HeaderSessionID, c.session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if id := resp.Header.Get(wire.HeaderSessionID); id != "" {
		c.session = id
	}
	c.status = resp.StatusCode
	if resp.Header.Get("Content-Type") != wire.ContentSSE {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("read answer: %v", err)
		}
		return body
	}
	c.before = nil
	var last []byte
	for events := wire.NewSSEReader(resp.Body, 256<<20); ; {
		ev, err := events.Next()
		if err != nil {
			return last
		}
		if len(ev.Data) == 0 {
			continue
		}
		if last != nil {
			c.before = append(c.before, last)
		}
		last = bytes.Clone(ev.Data)
	}
}
