package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// TestSSEClient: a client reaches a real server of the transport of 2024-11-05, by name or found out.
func TestSSEClient(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sse", "found out", "streamable"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
			mcp.AddTool(s, &mcp.Tool{Name: "hi"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{}, nil, nil
			})
			get := func(*http.Request) *mcp.Server { return s }
			var h http.Handler = mcp.NewSSEHandler(get, nil)
			if kind == "streamable" {
				h = mcp.NewStreamableHTTPHandler(get, nil)
			}
			srv := httptest.NewServer(h)
			defer srv.Close()
			var conn wire.Conn = wire.NewURLClient(srv.URL, nil)
			if kind == "sse" {
				conn = wire.NewSSEClient(srv.URL, nil)
			}
			c := wire.NewClient(conn, nil)
			done := make(chan error, 1)
			go func() { done <- c.Run(t.Context()) }()
			server, err := c.Initialize(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if server.Name != "old" {
				t.Errorf("server %+v", server)
			}
			for range 3 {
				if _, err := c.Call(t.Context(), "tools/call", []byte(`{"name":"hi","arguments":{}}`)); err != nil {
					t.Error(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
			if _, err := c.Call(t.Context(), "tools/call", nil); err == nil {
				t.Error("a call behind Close succeeded")
			}
		})
	}
}

// TestSSEClientBad: what no server of that transport does.
func TestSSEClientBad(t *testing.T) {
	t.Parallel()
	stream := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", wire.ContentSSE)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"another origin", stream("event: endpoint\ndata: http://evil.example/x\n\n"), "evil.example"},
		{"no URL", stream("event: endpoint\ndata: http://[\n\n"), "no URL"},
		{"ends", stream(""), "stream closed"},
		{"no stream", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "404"},
		{"no event stream", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }, "200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.h)
			defer srv.Close()
			c := wire.NewSSEClient(srv.URL, nil)
			err := c.Receive(t.Context(), func([]byte) {}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("receive: %v, want %q in it", err, tt.want)
			}
			if err := c.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), nil); !errors.Is(err, wire.ErrDisconnected) {
				t.Errorf("send: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Send(t.Context(), []byte(`{}`), nil); !errors.Is(err, wire.ErrClosed) {
				t.Errorf("send behind Close: %v", err)
			}
		})
	}
}

// TestURLClientRefused: where there is no older transport either, the refusal stands.
func TestURLClientRefused(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	conn := wire.NewURLClient(srv.URL, nil)
	err := conn.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), func([]byte) {})
	if status, ok := errors.AsType[*wire.StatusError](err); !ok || status.Status != http.StatusNotFound {
		t.Errorf("initialize: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}
