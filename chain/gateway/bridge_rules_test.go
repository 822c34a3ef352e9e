package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// TestBridgeAuto: a client that speaks both generations is left to fall back, and loses nothing.
func TestBridgeAuto(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "stdio", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := pinnedBackend(t, kind, legacyGeneration)
			b.Bridge = BridgeAuto
			f := serve(t, Options{Backends: []Backend{b}})
			cs := connect(t, f.url, nil, version20260728)
			if got := cs.InitializeResult().ProtocolVersion; got != legacy {
				t.Errorf("the client speaks %s, want %s", got, legacy)
			}
			if err := cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://r"}); err != nil {
				t.Errorf("subscribe: %v", err)
			}
			// One that did not ask is served, with or without others.
			call := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
			status, _, body := postRaw(t, f.url, call, wire.HeaderProtocolVersion, version20260728, wire.HeaderMethod, methodToolsCall, wire.HeaderName, "echo")
			if status != 200 || !strings.Contains(string(body), `"hi"`) || !strings.Contains(string(body), `"resultType":"complete"`) {
				t.Errorf("got status %d, %s", status, body)
			}
		})
	}
}

// TestBridgeLater: a server that is replaced by one of the other generation is noticed.
func TestBridgeLater(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	handler := func(g generation) http.Handler {
		s := pinned(g, stop)
		t.Cleanup(func() { closeSessions(s) })
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: g == modernGeneration})
	}
	var now atomic.Pointer[http.Handler]
	become := func(g generation) { h := handler(g); now.Store(&h) }
	become(legacyGeneration)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	f := serve(t, Options{Backends: []Backend{{Name: "b", URL: srv.URL}}})
	for _, g := range []generation{legacyGeneration, modernGeneration, modernGeneration} {
		become(g)
		cs := connect(t, f.url, nil, legacy)
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": g.version()}})
		if got := textOf(t, res, err); got != g.version() {
			t.Errorf("got %q, want %q", got, g.version())
		}
	}
	become(legacyGeneration)
	initialize := []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if _, _, body := postRaw(t, f.url, initialize); !strings.Contains(string(body), "-32603") {
		t.Errorf("got %s, want an error: only now it is known", body)
	}
	if _, _, body := postRaw(t, f.url, initialize); !strings.Contains(string(body), `"result"`) {
		t.Errorf("got %s, want a result", body)
	}
}

// TestBridgePlan: interceptors see and change the client's form of messages.
func TestBridgePlan(t *testing.T) {
	t.Parallel()
	for _, g := range bothGenerations {
		t.Run(g.version(), func(t *testing.T) {
			t.Parallel()
			b := pinnedBackend(t, "http", g)
			b.Plan = planOf(&fakePlan{
				matches: func(event string, _ schemas.Phase) bool { return event == methodToolsCall },
				run: func(_ context.Context, in chain.Input) chain.Result {
					if in.Target == "fail" {
						return deny(in)
					}
					if in.Phase == schemas.PhaseRequest {
						return chain.Result{Modified: true, Payload: replace(in.Payload, "secret", "[gone]")}
					}
					return chain.Result{Modified: true, Payload: replace(in.Payload, "[gone]", "[back]")}
				},
			})
			f := serve(t, Options{Backends: []Backend{b}})
			cs := connect(t, f.url, nil, g.other().version())
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "secret"}})
			if got := textOf(t, res, err); got != "[back]" {
				t.Errorf("got %q, want [back]", got)
			}
			if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "fail"}); err == nil || !strings.Contains(err.Error(), "Interceptor validation failed") {
				t.Errorf("got %v, want a denial", err)
			}
		})
	}
}

// TestBridgeOff: the server's own refusal reaches the client.
func TestBridgeOff(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "stdio"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := pinnedBackend(t, kind, modernGeneration)
			b.Bridge = BridgeOff
			f := serve(t, Options{Backends: []Backend{b}})
			_, _, body := postRaw(t, f.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
			if !strings.Contains(string(body), "-32601") {
				t.Errorf("got %s, want the server's -32601", body)
			}
		})
	}
}

// TestBridgeHeaders: the client's credentials reach the server it is translated for, the newest ones.
func TestBridgeHeaders(t *testing.T) {
	t.Parallel()
	for _, g := range bothGenerations {
		t.Run(g.version(), func(t *testing.T) {
			t.Parallel()
			stop := make(chan struct{})
			t.Cleanup(func() { close(stop) })
			server := pinned(g, stop)
			inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: g == modernGeneration})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer good") {
					http.Error(w, "who?", http.StatusUnauthorized)
					return
				}
				inner.ServeHTTP(w, r)
			}))
			t.Cleanup(func() {
				srv.Close()
				closeSessions(server)
			})
			f := serve(t, Options{Backends: []Backend{{Name: "b", URL: srv.URL, Bridge: BridgeAlways}}})
			token := &bearer{}
			c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
			cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url, HTTPClient: &http.Client{Transport: token}, MaxRetries: -1},
				&mcp.ClientSessionOptions{ProtocolVersion: g.other().version()})
			if err != nil {
				t.Fatalf("connect: %v", err)
			}
			defer func() { _ = cs.Close() }()
			if _, err := cs.ListTools(t.Context(), nil); err != nil {
				t.Errorf("list: %v", err)
			}
			token.stale.Store(true)
			if _, err := cs.ListTools(t.Context(), nil); err == nil {
				t.Error("a request with stale credentials was served")
			}
		})
	}
}

// bearer adds credentials, that are refused after they are stale.
type bearer struct{ stale atomic.Bool }

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer good")
	if b.stale.Load() {
		r.Header.Set("Authorization", "Bearer old")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// closeSessions ends those whose client did not say goodbye.
func closeSessions(s *mcp.Server) {
	for ss := range s.Sessions() {
		_ = ss.Close()
	}
}
