package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// pinned is a real server of one generation only.
func pinned(g generation, stop <-chan struct{}) *mcp.Server {
	versions := wire.LegacyVersions()
	if g == modernGeneration {
		versions = []string{wire.Version20260728}
	}
	s := sdkServerOf(versions, stop)
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: "a greeting"}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "roots"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		_, err := r.Session.ListRoots(ctx, nil) //nolint:staticcheck // older servers ask for them
		return text("refused: " + err.Error()), nil, nil
	})
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if g == modernGeneration && method == methodInitialize {
				return nil, &jsonrpc.Error{Code: wire.CodeMethodNotFound, Message: "initialize is not known here"}
			}
			return next(ctx, method, req)
		}
	})
	return s
}

// pinnedBackend is one of them behind a gateway.
func pinnedBackend(t *testing.T, kind string, g generation) Backend {
	t.Helper()
	b := Backend{Name: "b", Bridge: BridgeAlways}
	if kind == "http" {
		stop := make(chan struct{})
		b.URL = serveSDK(t, pinned(g, stop), &mcp.StreamableHTTPOptions{Stateless: g == modernGeneration})
		t.Cleanup(func() { close(stop) })
		return b
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.Command, b.Env, b.Shared = []string{exe}, map[string]string{childEnv: "legacy"}, kind == "shared"
	if g == modernGeneration {
		b.Env[childEnv] = "modern"
	}
	return b
}

type crossing struct {
	*front
	server  generation
	connect func(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession
}

// eachCrossing runs a test with client and server of different generations, over every pair of
// transports, in both directions.
func eachCrossing(t *testing.T, servers []generation, test func(t *testing.T, c crossing)) {
	t.Helper()
	for _, server := range servers {
		for _, fronts := range []string{"http", "stdio"} {
			for _, back := range []string{"http", "stdio", "shared"} {
				if fronts == "stdio" && back == "shared" {
					continue
				}
				version := server.other().version()
				t.Run(fronts+" "+version+" to "+back+" "+server.version(), func(t *testing.T) {
					t.Parallel()
					opts := Options{Backends: []Backend{pinnedBackend(t, back, server)}}
					c := crossing{server: server}
					if fronts == "http" {
						c.front = serve(t, opts)
						c.connect = func(t *testing.T, o *mcp.ClientOptions) *mcp.ClientSession {
							t.Helper()
							return connect(t, c.url, o, version)
						}
					} else {
						l := serveLines(t, opts)
						c.front = l.front
						c.connect = func(t *testing.T, o *mcp.ClientOptions) *mcp.ClientSession {
							t.Helper()
							return l.connect(t, o, version)
						}
					}
					test(t, c)
				})
			}
		}
	}
}

// namesBoth fails the test unless a text names the versions of both sides.
func namesBoth(t *testing.T, got string) {
	t.Helper()
	if !strings.Contains(got, legacy) || !strings.Contains(got, version20260728) {
		t.Errorf("got %q, want both versions in it", got)
	}
}

var bothGenerations = []generation{legacyGeneration, modernGeneration}

// TestBridge: lists, calls, reads, prompts and errors cross in both directions, and the events name both versions.
func TestBridge(t *testing.T) {
	t.Parallel()
	eachCrossing(t, bothGenerations, func(t *testing.T, c crossing) {
		cs := c.connect(t, nil)
		if got, want := cs.InitializeResult().ProtocolVersion, c.server.other().version(); got != want {
			t.Fatalf("the client speaks %s, want %s", got, want)
		}
		if got := cs.InitializeResult().ServerInfo; got == nil || got.Name != "backend" {
			t.Errorf("server info is %+v", got)
		}
		tools, err := cs.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) == 0 {
			t.Fatalf("list: %+v, %v", tools, err)
		}
		for range 3 {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
			if got := textOf(t, res, err); got != "hello" {
				t.Errorf("got %q, want hello", got)
			}
		}
		read, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://r"})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "r" {
			t.Errorf("read: %+v, %v", read, err)
		}
		prompt, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet"})
		if err != nil || prompt.Description != "a greeting" {
			t.Errorf("prompt: %+v, %v", prompt, err)
		}
		_, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "unknown"})
		if rpc, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpc.Code != wire.CodeInvalidParams {
			t.Errorf("got %v, want the server's error -32602", err)
		}
		ids := c.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed).Event.Correlation
		if ids.ProtocolVersion != c.server.other().version() || ids.ServerVersion != c.server.version() {
			t.Errorf("the event says client %q and server %q", ids.ProtocolVersion, ids.ServerVersion)
		}
	})
}

// TestBridgeRefusal: what one generation lacks gets an error that names both versions.
func TestBridgeRefusal(t *testing.T) {
	t.Parallel()
	eachCrossing(t, bothGenerations, func(t *testing.T, c crossing) {
		cs := c.connect(t, nil)
		if c.server == legacyGeneration {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "roots"})
			namesBoth(t, textOf(t, res, err))
			return
		}
		err := cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://r"})
		if err == nil {
			t.Fatal("subscribed")
		}
		namesBoth(t, err.Error())
	})
}

// TestBridgeRounds: what a server of 2026-07-28 asks for in a result, an older client is asked by a request.
func TestBridgeRounds(t *testing.T) {
	t.Parallel()
	eachCrossing(t, []generation{modernGeneration}, func(t *testing.T, c crossing) {
		cs := c.connect(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		}})
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "rounds"})
		if got := textOf(t, res, err); got != "Ada" {
			t.Errorf("got %q, want Ada", got)
		}
		rec := c.ledger.waitOutcome(t, "elicitation/create", schemas.OutcomeAllowed)
		if !rec.Event.Operation.Reverse {
			t.Error("the question is not recorded as the server's")
		}
	})
}

// TestBridgeProgress: notifications about a request cross.
func TestBridgeProgress(t *testing.T) {
	t.Parallel()
	eachCrossing(t, bothGenerations, func(t *testing.T, c crossing) {
		got := make(chan float64, 8)
		cs := c.connect(t, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			got <- r.Params.Progress
		}})
		params := &mcp.CallToolParams{Name: "progress"}
		params.SetProgressToken("p")
		res, err := cs.CallTool(t.Context(), params)
		if text := textOf(t, res, err); text != "done" {
			t.Errorf("got %q, want done", text)
		}
		for want := range 3 {
			if p := <-got; p != float64(want+1) {
				t.Errorf("progress is %v, want %d", p, want+1)
			}
		}
	})
}

// TestBridgeCancel: a call that its client gives up ends at the server, and as cancelled.
func TestBridgeCancel(t *testing.T) {
	t.Parallel()
	eachCrossing(t, bothGenerations, func(t *testing.T, c crossing) {
		cs := c.connect(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "hang"})
			done <- err
		}()
		c.ledger.waitRequest(t)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want a cancel", err)
		}
		c.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeCancelled)
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "still here"}})
		if got := textOf(t, res, err); got != "still here" {
			t.Errorf("got %q, want still here", got)
		}
	})
}

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
			inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return pinned(g, stop) }, &mcp.StreamableHTTPOptions{Stateless: g == modernGeneration})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer good") {
					http.Error(w, "who?", http.StatusUnauthorized)
					return
				}
				inner.ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
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
