package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
)

// oldBackend is a real server over HTTP+SSE of 2024-11-05.
func oldBackend(t *testing.T, transport string, p *fakePlan) Backend {
	t.Helper()
	stop := make(chan struct{})
	s := sdkServer(stop)
	srv := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		close(stop)
		for ss := range s.Sessions() {
			_ = ss.Close()
		}
		srv.Close()
	})
	return Backend{Name: "b", URL: srv.URL, Transport: transport, Plan: planOf(p)}
}

// connectOld makes a real client of that transport.
func connectOld(t *testing.T, url string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, opts).Connect(t.Context(),
		&mcp.SSEClientTransport{Endpoint: url, HTTPClient: hc}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

// TestOldTransport: real clients and servers of the transport of 2024-11-05, before and behind the
// gateway, with everything else on the other side: calls, progress, requests of the server, denials.
func TestOldTransport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ client, backend string }{
		{"sse", "http"},
		{"sse", "http-json"},
		{"sse", "stdio"},
		{"sse", "shared"},
		{"sse", "old"},
		{"sse", "old, found out"},
		{"http", "old"},
		{"http", "old, found out"},
		{"stdio", "old"},
		{"stdio", "old, found out"},
	} {
		t.Run(c.client+" to "+c.backend, func(t *testing.T) {
			t.Parallel()
			p := &fakePlan{
				matches: func(event string, phase schemas.Phase) bool {
					return event == "resources/read" && phase == schemas.PhaseRequest
				},
				run: func(_ context.Context, in chain.Input) chain.Result { return deny(in) },
			}
			var b Backend
			switch c.backend {
			case "old":
				b = oldBackend(t, TransportSSE, p)
			case "old, found out":
				b = oldBackend(t, "", p)
			default:
				b = backend(t, c.backend, p)
			}
			notes := make(chan float64, 8)
			o := &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
				},
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { notes <- r.Params.Progress },
			}
			opts := Options{Backends: []Backend{b}}
			var cs *mcp.ClientSession
			var g *front
			switch c.client {
			case "sse":
				g = serve(t, opts)
				cs = connectOld(t, strings.TrimSuffix(g.url, "mcp")+"sse", o)
			case "http":
				g = serve(t, opts)
				cs = connect(t, g.url, o, legacy)
			default:
				l := serveLines(t, opts)
				g = l.front
				cs = l.connect(t, o, legacy)
			}
			if list, err := cs.ListTools(t.Context(), nil); err != nil || len(list.Tools) == 0 {
				t.Fatalf("list: %v", err)
			}
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
			if got := textOf(t, res, err); got != "hello" {
				t.Errorf("got %q", got)
			}
			if c.backend != "http-json" { // which has no streams
				params := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{}}
				params.SetProgressToken("p")
				if _, err := cs.CallTool(t.Context(), params); err != nil {
					t.Error(err)
				}
				for want := 1.0; want <= 3; want++ {
					if got := <-notes; got != want {
						t.Errorf("progress %v, want %v", got, want)
					}
				}
				res, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit", Arguments: map[string]any{}})
				if got := textOf(t, res, err); got != "accept Ann" {
					t.Errorf("got %q", got)
				}
			}
			if _, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://r"}); err == nil {
				t.Error("a denied read succeeded")
			}
			g.ledger.waitOutcome(t, "resources/read", schemas.OutcomeDenied)
		})
	}
}

// TestOldSessions: what is refused, and that a session ends with its stream.
func TestOldSessions(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Backends: []Backend{backend(t, "stdio", nil)}, MaxChildren: 1})
	base := strings.TrimSuffix(g.url, "mcp")
	s := &rawSession{url: base + "sse", version: "2024-11-05"}
	stream := s.stream(t, "", "")
	ev := stream.next(t)
	if ev.Type != "endpoint" || !strings.HasPrefix(string(ev.Data), "/b/message?sessionId=") {
		t.Fatalf("first event %+v", ev)
	}
	endpoint := strings.TrimSuffix(base, "/b/") + string(ev.Data)
	for _, tt := range []struct {
		name, method, url, body string
		status                  int
	}{
		{"one child too many", "GET", base + "sse", "", 503},
		{"initialize at the stream", "POST", base + "sse", pingText, 405},
		{"unknown session", "POST", base + "message?sessionId=x", pingText, 404},
		{"no session", "POST", base + "message", pingText, 404},
		{"wrong method", "GET", endpoint, "", 405},
		{"garbage", "POST", endpoint, "{", 400},
		{"notification", "POST", endpoint, `{"jsonrpc":"2.0","method":"notifications/x"}`, 202},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, resp.StatusCode, tt.status)
		}
	}
	postRaw(t, endpoint, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
	if msg := mustParse(t, stream.next(t).Data); string(msg.ID) != "1" || msg.Result == nil {
		t.Errorf("answer to initialize: %s", msg.Raw)
	}
	postRaw(t, endpoint, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	postRaw(t, endpoint, []byte(`[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"ping"}]`))
	if got := stream.next(t).Data; got[0] != '[' {
		t.Errorf("answer to a batch: %s", got)
	}
	postRaw(t, endpoint, []byte(callWait))
	stream.cut()
	if rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeCancelled); rec.Event.Decision.Cause != causeSessionEnded {
		t.Errorf("cause %q", rec.Event.Decision.Cause)
	}
}

// TestOldServerLost: who waits for a server that goes away gets an error, and then the end.
func TestOldServerLost(t *testing.T) {
	t.Parallel()
	b := backend(t, "stdio", nil)
	b.Env[childEnv] = "dies"
	g := serve(t, Options{Backends: []Backend{b}})
	s := &rawSession{url: strings.TrimSuffix(g.url, "mcp") + "sse", version: "2024-11-05"}
	stream := s.stream(t, "", "")
	endpoint := strings.TrimSuffix(g.url, "/b/mcp") + string(stream.next(t).Data)
	postRaw(t, endpoint, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
	stream.next(t)
	postRaw(t, endpoint, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	postRaw(t, endpoint, []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"die","arguments":{}}}`))
	if msg := mustParse(t, stream.next(t).Data); msg.RPCError() == nil || string(msg.ID) != `"x"` {
		t.Errorf("got %s", msg.Raw)
	}
	if ev, err := stream.events.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %+v, %v", ev, err)
	}
}
