package main

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// backend is the MCP server whose own list of executed calls is one half of the oracle.
type backend struct {
	url    string
	server *http.Server

	mu       sync.Mutex // covers executed
	executed map[string]int
}

type workArgs struct {
	Token string `json:"token"`
	Note  string `json:"note"`
}

func startBackend(ctx context.Context) (*backend, error) {
	b := &backend{executed: map[string]int{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "crash-backend", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "work", Description: "Does something once"},
		func(_ context.Context, _ *mcp.CallToolRequest, in workArgs) (*mcp.CallToolResult, any, error) {
			b.mu.Lock()
			b.executed[in.Token]++
			b.mu.Unlock()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done " + in.Token}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b.url = "http://" + l.Addr().String() + "/"
	b.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { // exits when close is called
		if err := b.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
	return b, nil
}

// list returns how often each token was executed.
func (b *backend) list() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.executed)
}

func (b *backend) close() { _ = b.server.Close() }
