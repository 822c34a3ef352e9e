package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// TestSessionIDs: a request id may not be used twice at a time in a session, an answer to an unknown
// id goes nowhere.
func TestSessionIDs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	peer := newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if bytes.Contains(body, []byte("slow")) {
			<-release
		}
		answerJSON(`{"jsonrpc":"2.0","id":1,"result":{}}`)(w, nil, nil)
	})
	g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
	slow := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		postRaw(t, g.url, slow, wire.HeaderSessionID, "s")
	}()
	g.ledger.waitRequest(t)
	status, _, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1.0,"method":"tools/list"}`), wire.HeaderSessionID, "s")
	if msg := mustParse(t, body); status != 400 || msg.RPCError() == nil || string(msg.ID) != "1.0" {
		t.Errorf("reused id: status %d, %s", status, body)
	}
	if status, _, _ := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), wire.HeaderSessionID, "other"); status != 200 {
		t.Errorf("the same id in another session: status %d", status)
	}
	close(release)
	<-done
	before := len(peer.requests())
	if status, _, _ := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":77,"result":{}}`), wire.HeaderSessionID, "s"); status != 202 {
		t.Errorf("stray answer: status %d, want 202", status)
	}
	if n := len(peer.requests()); n != before || g.Stray() != 1 {
		t.Errorf("the server got %d messages more, stray is %d", n-before, g.Stray())
	}
}

// TestResume: an answer that comes on a resumed stream is the answer of its exchange, and the same
// answer again is passed again, without a second outcome.
func TestResume(t *testing.T) {
	t.Parallel()
	var p fakePlan
	p.matches = func(_ string, phase schemas.Phase) bool { return phase == schemas.PhaseResponse }
	p.run = func(_ context.Context, in chain.Input) chain.Result {
		return chain.Result{Modified: true, Payload: replace(in.Payload, "secret", "gone")}
	}
	peer := newRawPeer(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, "id: 1\nretry: 10\ndata: \n\n") // and closes, for the client to poll
			return
		}
		_, _ = io.WriteString(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"s\":\"secret\"}}\n\n")
	})
	g := serve(t, Options{Backends: httpBackend(peer.url, &p)})
	_, _, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`), wire.HeaderSessionID, "s")
	if want := "id: 1\nretry: 10\ndata: \n\n"; string(body) != want {
		t.Errorf("first stream is %q, want %q", body, want)
	}
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(wire.HeaderSessionID, "s")
		req.Header.Set(wire.HeaderLastEventID, "1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"s\":\"gone\"}}\n\n"; err != nil || string(body) != want {
			t.Errorf("resumed stream is %q, %v, want %q", body, err, want)
		}
	}
	if diff := cmp.Diff([]string{"request tools/call", "outcome tools/call allowed "}, g.ledger.lines()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestHeaders: headers that repeat the body follow a mutation, others pass, hop-by-hop ones do not.
func TestHeaders(t *testing.T) {
	t.Parallel()
	p := &fakePlan{
		matches: func(_ string, phase schemas.Phase) bool { return phase == schemas.PhaseRequest },
		run: func(_ context.Context, in chain.Input) chain.Result {
			return chain.Result{Modified: true, Payload: replace(replace(in.Payload, "old", "new"), "eu", "us")}
		},
	}
	peer := newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("X-From-Server", "1")
		answerJSON(`{"jsonrpc":"2.0","id":1,"result":{}}`)(w, nil, nil)
	})
	b := httpBackend(peer.url, p)
	b[0].Headers = map[string]string{"X-Configured": "yes"}
	g := serve(t, Options{Backends: b})
	_, head, _ := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"old","arguments":{"region":"eu"}}}`),
		"Mcp-Method", "tools/call", "Mcp-Name", "old", "Mcp-Param-Region", "eu", "Authorization", "Bearer x", "Connection", "X-Hop", "X-Hop", "1")
	got := peer.head[0]
	want := map[string]string{
		"Mcp-Method": "tools/call", "Mcp-Name": "new", "Mcp-Param-Region": "us", "Authorization": "Bearer x", "X-Hop": "", "X-Configured": "yes",
	}
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.Get(name), value)
		}
	}
	if head.Get("X-From-Server") != "1" {
		t.Error("a header of the server is missing")
	}
}

// TestRebinding: a page under a foreign name does not reach a loopback listener.
func TestRebinding(t *testing.T) {
	t.Parallel()
	peer := newRawPeer(t, answerJSON(`{"jsonrpc":"2.0","id":99,"result":{}}`))
	g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"", "", 200},
		{"evil.example", "", 403},
		{"", "http://evil.example", 403},
		{"", "http://localhost:1234", 200},
		{"localhost", "", 200},
		{"evil.example:80", "http://localhost", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url, strings.NewReader(pingText))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("host %q origin %q: status %d, want %d", c.host, c.origin, resp.StatusCode, c.want)
		}
	}
}

// TestListen: a stream that stays open for its client's sake holds up no drain, and ends as stopped;
// one that the client leaves ends as cancelled, at the server too.
func TestListen(t *testing.T) {
	t.Parallel()
	for _, outcome := range []schemas.Outcome{schemas.OutcomeStopped, schemas.OutcomeCancelled} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{})
			peer := newRawPeer(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
				defer close(gone)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{}}\n\n")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url,
				strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if _, err := io.ReadFull(resp.Body, make([]byte, 60)); err != nil {
				t.Fatal(err)
			}
			if outcome == schemas.OutcomeCancelled {
				leave()
			} else if err := g.Drain(t.Context()); err != nil {
				t.Errorf("drain: %v", err)
			}
			g.ledger.waitOutcome(t, methodListen, outcome)
			if outcome == schemas.OutcomeStopped {
				if err := g.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			<-gone
		})
	}
}

// TestHalfRequest: a client that stops in the middle of its request gets an error, and an event.
func TestHalfRequest(t *testing.T) {
	t.Parallel()
	peer := newRawPeer(t, answerJSON(`{}`))
	g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
	address, _, _ := strings.Cut(strings.TrimPrefix(g.url, "http://"), "/")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST /b/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"jsonrpc\":\"2.0\",")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(answer, []byte("-32700")) {
		t.Errorf("got %q, %v, want a parse error", answer, err)
	}
	g.ledger.waitOutcome(t, eventOther, schemas.OutcomeError)
	if len(peer.requests()) != 0 {
		t.Error("the server got it")
	}
}
