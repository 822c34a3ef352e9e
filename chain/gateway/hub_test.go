package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// TestSharedApart: many sessions at one server, with the same request ids and progress tokens, each
// get what is theirs.
func TestSharedApart(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Backends: []Backend{backend(t, "shared", nil)}})
	var wg sync.WaitGroup
	for i := range 8 {
		notes := make(chan float64, 64)
		cs := connect(t, g.url, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.ProgressToken != "token" {
				t.Errorf("token %v", r.Params.ProgressToken)
			}
			notes <- r.Params.Progress
		}}, legacy)
		wg.Go(func() {
			for n := range 5 {
				want := fmt.Sprintf("%d-%d", i, n)
				res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": want}})
				if err != nil {
					t.Errorf("call: %v", err)
					return
				}
				if got := res.Content[0].(*mcp.TextContent).Text; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				params := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{}}
				params.SetProgressToken("token")
				if _, err := cs.CallTool(t.Context(), params); err != nil {
					t.Errorf("call: %v", err)
				}
			}
			for n := range 15 {
				if got, want := <-notes, float64(n%3+1); got != want {
					t.Errorf("note %d is %v, want %v", n, got, want)
				}
			}
		})
	}
	wg.Wait()
}

// TestUnroutable: a shared server that asks while two sessions have calls open is refused.
func TestUnroutable(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Backends: []Backend{backend(t, "shared", nil)}})
	elicit := &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept"}, nil
	}}
	a, b := connect(t, g.url, elicit, legacy), connect(t, g.url, elicit, legacy)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.CallTool(ctx, &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{}})
	}()
	g.ledger.waitRequest(t)
	// A call that is seen by the server before the other one asks.
	if _, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	res, err := b.CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit", Arguments: map[string]any{}})
	if got := textOf(t, res, err); !strings.Contains(got, "no single session") {
		t.Errorf("got %q, want a refusal", got)
	}
	if rec := g.ledger.waitOutcome(t, "elicitation/create", schemas.OutcomeDenied); rec.Event.Decision.Cause != causeUnroutable {
		t.Errorf("cause %q", rec.Event.Decision.Cause)
	}
	cancel()
	<-done
}

// TestHubSessions: sessions begin with initialize, are needed afterwards, and end with DELETE or
// when idle; a call that is open then is cancelled.
func TestHubSessions(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, g *front) string {
		t.Helper()
		status, head, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
		id := head.Get(wire.HeaderSessionID)
		if status != 200 || len(id) < 16 {
			t.Fatalf("initialize: status %d, session %q, %s", status, id, body)
		}
		if status, _, _ := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), wire.HeaderSessionID, id); status != 202 {
			t.Errorf("initialized: status %d", status)
		}
		return id
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		g := serve(t, Options{Backends: []Backend{backend(t, "stdio", nil)}, MaxChildren: 1})
		if status, _, _ := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); status != 400 {
			t.Errorf("without a session: status %d, want 400", status)
		}
		if status, _, _ := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), wire.HeaderSessionID, "x"); status != 404 {
			t.Errorf("unknown session: status %d, want 404", status)
		}
		start(t, g)
		status, _, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
		if msg := mustParse(t, body); status != 503 || msg.RPCError() == nil {
			t.Errorf("one child too many: status %d, %s", status, body)
		}
	})
	t.Run("delete", func(t *testing.T) {
		t.Parallel()
		g := serve(t, Options{Backends: []Backend{backend(t, "stdio", nil)}})
		id := start(t, g)
		done := make(chan struct{})
		go func() {
			defer close(done)
			postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hang","arguments":{}}}`), wire.HeaderSessionID, id)
		}()
		g.ledger.waitRequest(t)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, g.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(wire.HeaderSessionID, id)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		<-done
		if rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeCancelled); rec.Event.Decision.Cause != causeSessionEnded {
			t.Errorf("cause %q", rec.Event.Decision.Cause)
		}
		if status, _, _ := postRaw(t, g.url, []byte(pingText), wire.HeaderSessionID, id); status != 404 {
			t.Errorf("after DELETE: status %d, want 404", status)
		}
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		g := serve(t, Options{Backends: []Backend{backend(t, "stdio", nil)}, SessionIdle: 50 * time.Millisecond})
		h := g.table.Load().fronts["b"].(*hub)
		if s := h.session(start(t, g)); s != nil { // else it has ended already
			<-s.done
		}
	})
	t.Run("child dies", func(t *testing.T) {
		t.Parallel()
		b := backend(t, "stdio", nil)
		b.Env[childEnv] = "dies"
		g := serve(t, Options{Backends: []Backend{b}})
		id := start(t, g)
		status, _, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"die","arguments":{}}}`), wire.HeaderSessionID, id)
		if msg := mustParse(t, body); msg.RPCError() == nil || string(msg.ID) != `"x"` {
			t.Errorf("status %d, %s", status, body)
		}
		if rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeError); rec.Event.Decision.Cause != causeBackendLost {
			t.Errorf("cause %q", rec.Event.Decision.Cause)
		}
	})
}

// TestGarbageOnStdout: what a server prints besides messages is recorded, dropped, and harms nobody.
func TestGarbageOnStdout(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stdio", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := backend(t, kind, nil)
			b.Env[childEnv] = "noisy"
			g := serve(t, Options{Backends: []Backend{b}})
			cs := connect(t, g.url, nil, legacy)
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}})
			if got := textOf(t, res, err); got != "x" {
				t.Errorf("got %q", got)
			}
			n := 0
			for _, line := range g.ledger.lines() {
				if line == "outcome other error malformed" {
					n++
				}
			}
			if n == 0 {
				t.Error("the noise is not recorded")
			}
		})
	}
}

// TestStdioBatch: over lines, too, an old batch is answered as a batch.
func TestStdioBatch(t *testing.T) {
	t.Parallel()
	l := serveLines(t, Options{Backends: []Backend{backend(t, "stdio", nil)}})
	go func() {
		_, _ = io.WriteString(l.in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"s","version":"1"}}}`+"\n")
	}()
	l.read(t)
	go func() {
		_, _ = io.WriteString(l.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
			`[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3},{"jsonrpc":"2.0","id":4,"method":"tools/list"}]`+"\n")
	}()
	raw, err := l.lineReader().ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if raw[0] != '[' {
		t.Fatalf("answer is no batch: %s", raw)
	}
	for v := range elements(raw) {
		msg := mustParse(t, v)
		got[string(msg.ID)] = msg.Kind.String()
	}
	if got["2"] != "response" || got["3"] != "error" || got["4"] != "response" || len(got) != 3 {
		t.Errorf("got %v", got)
	}
}
