package interop_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/wire"
)

// Kinds of transport, in front of the gateway and behind it.
const (
	overHTTP  = "http"
	overStdio = "stdio"
)

// reply is what a scripted server does with a message.
type reply struct {
	lines [][]byte // each one message, or what stands in its place
	sse   bool     // over HTTP: as events, also if it is only one
	kind  string   // over HTTP: another content type; empty: JSON
	cut   bool     // the connection ends after the lines
	hang  bool     // nothing comes until the test ends
}

func say(lines ...string) reply {
	var r reply
	for _, l := range lines {
		r.lines = append(r.lines, []byte(l))
	}
	return r
}

// peer is an MCP server that does with raw bytes what a test tells it to.
type peer struct {
	answer func(msg *wire.Message) reply

	mu   sync.Mutex
	got  []string      // everything but the handshake
	wake chan struct{} // closed when another message came
	stop chan struct{}
}

// hello answers the handshake.
const hello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`

func newPeer(t *testing.T, answer func(msg *wire.Message) reply) *peer {
	t.Helper()
	p := &peer{answer: answer, wake: make(chan struct{}), stop: make(chan struct{})}
	t.Cleanup(func() { close(p.stop) })
	return p
}

// waitGot waits until a message has arrived that is the bytes of raw.
func (p *peer) waitGot(t *testing.T, raw []byte) {
	t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		p.mu.Lock()
		got, wake := slices.Contains(p.got, string(raw)), p.wake
		p.mu.Unlock()
		if got {
			return
		}
		select {
		case <-wake:
		case <-limit.C:
			t.Fatalf("not at the server within 10 s: %s\nthere is %q", raw, p.requests())
		}
	}
}

func (p *peer) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.got...)
}

// take is what the server does with one message.
func (p *peer) take(raw []byte) reply {
	msg, _ := wire.Parse(raw, wire.Limits{Lenient: true, MaxDepth: 1 << 20})
	if msg.Method == wire.MethodInitialize {
		return say(`{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"result":` + hello + `}`)
	}
	if msg.Method == wire.MethodInitialized {
		return reply{}
	}
	p.mu.Lock()
	p.got = append(p.got, string(raw))
	close(p.wake)
	p.wake = make(chan struct{})
	p.mu.Unlock()
	return p.answer(&msg)
}

// backend makes the peer a server of that kind.
func (p *peer) backend(t *testing.T, kind string) gateway.Backend {
	t.Helper()
	if kind == overHTTP {
		s := httptest.NewServer(http.HandlerFunc(p.serveHTTP))
		t.Cleanup(s.Close)
		return gateway.Backend{Name: "b", URL: s.URL}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { // exits when the listener is closed
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serveLines(conn) }) // exits with its child
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return gateway.Backend{Name: "b", Command: self(t), Env: map[string]string{dialEnv: l.Addr().String()}}
}

func self(t *testing.T) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe}
}

func (p *peer) serveLines(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	lines := wire.NewLineConn(conn, conn, &wire.LineOptions{MaxMessage: 256 << 20})
	for {
		raw, err := lines.ReadMessage()
		if err != nil {
			return
		}
		r := p.take(raw)
		for _, line := range r.lines {
			if _, err := conn.Write(append(line, '\n')); err != nil {
				return
			}
		}
		if r.cut {
			return
		}
	}
}

func (p *peer) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a := p.take(body)
	switch {
	case a.hang:
		select {
		case <-p.stop:
		case <-r.Context().Done():
		}
		return
	case a.sse || len(a.lines) > 1:
		w.Header().Set("Content-Type", wire.ContentSSE)
		for _, line := range a.lines {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
		}
		if a.cut {
			cutHTTP(w)
		}
	case len(a.lines) == 0 && a.cut:
		cutHTTP(w)
	case len(a.lines) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", wire.ContentJSON)
		if a.kind != "" {
			w.Header().Set("Content-Type", a.kind)
		}
		if a.cut {
			w.Header().Set("Content-Length", "1000000")
		}
		_, _ = w.Write(a.lines[0])
	}
}

// cutHTTP breaks the connection in the middle of an answer.
func cutHTTP(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	if conn, _, err := rc.Hijack(); err == nil {
		_ = conn.Close()
	}
}
