package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// rawSession is a client that decides each request.
type rawSession struct{ url, id, version string }

func newRawSession(t *testing.T, url, version string) *rawSession {
	t.Helper()
	status, head, body := postRaw(t, url, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
	s := &rawSession{url: url, id: head.Get(wire.HeaderSessionID), version: version}
	if status != http.StatusOK || s.id == "" {
		t.Fatalf("initialize: status %d, session %q, %s", status, s.id, body)
	}
	s.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *rawSession) post(t *testing.T, body string) []byte {
	t.Helper()
	_, _, out := postRaw(t, s.url, []byte(body), wire.HeaderSessionID, s.id, wire.HeaderProtocolVersion, s.version)
	return out
}

// rawStream is an answer that is read event by event.
type rawStream struct {
	status int
	body   io.Closer
	events *wire.SSEReader
	cut    context.CancelFunc
}

// stream sends a request, a GET if there is no body.
func (s *rawSession) stream(t *testing.T, body, lastID string) *rawStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(wire.HeaderSessionID, s.id)
	req.Header.Set(wire.HeaderProtocolVersion, s.version)
	if lastID != "" {
		req.Header.Set(wire.HeaderLastEventID, lastID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &rawStream{status: resp.StatusCode, body: resp.Body, events: wire.NewSSEReader(resp.Body, 0), cut: cancel}
}

func (s *rawStream) next(t *testing.T) wire.Event {
	t.Helper()
	ev, err := s.events.Next()
	if err != nil {
		t.Fatalf("status %d: %v", s.status, err)
	}
	return ev
}

const (
	callWait = `{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"wait","arguments":{}}}`
	callOpen = `{"jsonrpc":"2.0","id":"o","method":"tools/call","params":{"name":"open","arguments":{}}}`
)

// TestHubResume: a client of a stdio server that lost its connection gets the answer when it comes
// back, as often as it asks, and the messages of its GET stream behind the last it got.
func TestHubResume(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stdio", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{Backends: []Backend{backend(t, kind, nil)}})
			s := newRawSession(t, g.url, wire.Version20251125)
			post := s.stream(t, callWait, "")
			prime := post.next(t)
			want := wire.Event{ID: prime.ID, HasID: true, Retry: time.Second}
			if !strings.HasSuffix(prime.ID, "_0") {
				t.Errorf("event id %q", prime.ID)
			}
			if diff := cmp.Diff(want, prime); diff != "" {
				t.Errorf("first event (-want +got):\n%s", diff)
			}
			id := post.events.LastID()
			post.cut()
			s.post(t, callOpen)
			g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed)
			for range 2 {
				again := s.stream(t, "", id)
				if again.status != http.StatusOK {
					t.Fatalf("resume: status %d", again.status)
				}
				ev := again.next(t)
				for len(ev.Data) == 0 {
					ev = again.next(t)
				}
				if !bytes.Contains(ev.Data, []byte("opened")) || !strings.HasSuffix(ev.ID, "_1") {
					t.Errorf("resumed event %s: %s", ev.ID, ev.Data)
				}
				if ev, err := again.events.Next(); !errors.Is(err, io.EOF) {
					t.Errorf("behind the answer: %s, %v", ev.Data, err)
				}
			}
			for _, id := range []string{"99_0", "x", "1_99", "0_7"} {
				if got := s.stream(t, "", id).status; got != http.StatusBadRequest {
					t.Errorf("event id %s: status %d, want 400", id, got)
				}
			}
		})
	}
}

// TestHubStreamResume: messages that a server sent unasked come again behind the last that was got; a
// resumed stream takes the place of the one that seems open.
func TestHubStreamResume(t *testing.T) {
	t.Parallel()
	for _, version := range []string{wire.Version20251125, wire.Version20250618} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{Backends: []Backend{backend(t, "stdio", nil)}})
			s := newRawSession(t, g.url, version)
			s.post(t, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"test://r"}}`)
			first := s.stream(t, "", "")
			update := func(n int) {
				s.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"update","arguments":{"text":"r"}}}`, n))
			}
			message := func(of *rawStream) wire.Event {
				for {
					if ev := of.next(t); len(ev.Data) > 0 {
						return ev
					} else if version < wire.Version20251125 {
						t.Error("an event without data, which older clients do not understand")
					}
				}
			}
			update(3)
			update(4)
			if a, b := message(first), message(first); a.ID != "0_1" || b.ID != "0_2" {
				t.Errorf("event ids %q, %q", a.ID, b.ID)
			}
			second := s.stream(t, "", "0_1")
			if ev := message(second); ev.ID != "0_2" || !bytes.Contains(ev.Data, []byte(methodUpdated)) {
				t.Errorf("replayed event %s: %s", ev.ID, ev.Data)
			}
			if _, err := first.events.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("the first stream goes on: %v", err)
			}
			if got := s.stream(t, "", "").status; got != http.StatusConflict {
				t.Errorf("a second stream: status %d, want 409", got)
			}
			update(5)
			if ev := message(second); ev.ID != "0_3" {
				t.Errorf("event id %q, want 0_3", ev.ID)
			}
		})
	}
}

// TestHubResumeSDK: a real client does not notice that its connection broke.
func TestHubResumeSDK(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Backends: []Backend{backend(t, "stdio", nil)}})
	cutter := &cutTransport{base: &http.Transport{}, broke: make(chan struct{})}
	t.Cleanup(cutter.base.CloseIdleConnections)
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
	cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: g.url, HTTPClient: &http.Client{Transport: cutter}, MaxRetries: 5,
	}, &mcp.ClientSessionOptions{ProtocolVersion: wire.Version20251125})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	got := make(chan string, 1)
	go func() {
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{}})
		if err != nil {
			got <- err.Error()
			return
		}
		got <- res.Content[0].(*mcp.TextContent).Text
	}()
	<-cutter.broke
	if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "open", Arguments: map[string]any{}}); err != nil {
		t.Errorf("open: %v", err)
	}
	if text := <-got; text != "opened" {
		t.Errorf("the call that lost its connection got %q", text)
	}
}

// cutTransport breaks the first event stream that answers a POST, behind its first event.
type cutTransport struct {
	base  *http.Transport
	did   atomic.Bool
	broke chan struct{}
}

func (c *cutTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && contentType(resp.Header) == wire.ContentSSE && !c.did.Swap(true) {
		resp.Body = &cutBody{ReadCloser: resp.Body, broke: c.broke}
	}
	return resp, err
}

type cutBody struct {
	io.ReadCloser
	broke chan struct{}
	done  bool
}

func (b *cutBody) Read(to []byte) (int, error) {
	if b.done {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(to)
	if bytes.Contains(to[:n], []byte("\n\n")) {
		b.done = true
		_ = b.Close()
		close(b.broke)
	}
	return n, err
}

// TestPortBounds: what is kept for a client that may come back is bounded, by number and by size.
func TestPortBounds(t *testing.T) {
	t.Parallel()
	p := newHTTPPort(true)
	call := mustParse(t, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7}}}`))
	note := mustParse(t, []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}`))
	s, by := p.open(&call)
	for range 3 * maxKept {
		if err := p.deliver(t.Context(), &note); err != nil {
			t.Fatal(err)
		}
		m, _, _ := p.following(s, by)
		p.written(s, by, m.seq, true)
	}
	if len(s.log) != maxKept || len(p.kept) != maxKept || p.bytes != maxKept*len(note.Raw) {
		t.Errorf("%d messages in the log, %d kept, %d bytes", len(s.log), len(p.kept), p.bytes)
	}
	p.detach(s, by)
	p.final(s, make([]byte, maxKeptBytes-1))
	if len(s.log) != 1 || p.bytes != maxKeptBytes-1 {
		t.Errorf("%d messages in the log, %d bytes", len(s.log), p.bytes)
	}
	other, by := p.open(&call)
	p.written(other, by, 0, true)
	p.detach(other, by)
	p.final(other, make([]byte, 2))
	if len(p.streams) != 2 || p.bytes != 2 {
		t.Errorf("%d streams, %d bytes: the older one is to make room", len(p.streams), p.bytes)
	}
	if _, _, status, _ := p.attach(s.eventID(1)); status != http.StatusBadRequest {
		t.Errorf("a stream that is gone: status %d", status)
	}
}
