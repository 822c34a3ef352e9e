package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// load calls the tool through the gateway, each call with a token of its own, never repeated: what a
// client saw of a token is the other half of the oracle.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	next   atomic.Int64

	mu       sync.Mutex // covers answered and failed
	answered map[string]bool
	failed   int
}

type answers struct {
	answered map[string]bool // tokens whose result the client got
	failed   int             // calls that ended in an error at the client
}

const pause = 4 * time.Millisecond // between two calls of one client

func startLoad(ctx context.Context, endpoint string, clients int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, answered: map[string]bool{}}
	for range clients {
		l.wg.Go(func() { l.client(ctx, endpoint) })
	}
	return l
}

// client connects, calls until something breaks, and connects again, until ctx ends.
func (l *load) client(ctx context.Context, endpoint string) {
	for ctx.Err() == nil {
		l.session(ctx, endpoint)
		wait(ctx, 50*time.Millisecond)
	}
}

func (l *load) session(ctx context.Context, endpoint string) {
	client := mcp.NewClient(&mcp.Implementation{Name: "crash-client", Version: "1"}, nil)
	connectCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	session, err := client.Connect(connectCtx, &mcp.StreamableClientTransport{Endpoint: endpoint, MaxRetries: -1}, nil)
	if err != nil {
		return
	}
	defer session.Close() //nolint:errcheck // the gateway may be dead
	for ctx.Err() == nil {
		if !l.call(session) { //nolint:contextcheck // a call under way is not cut off by the end of the load
			return
		}
		wait(ctx, pause)
	}
}

// call makes one call; it is not cut off by the end of the load, only by its own limit.
func (l *load) call(session *mcp.ClientSession) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	token := fmt.Sprintf("tok-%08d-end", l.next.Add(1))
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "work", Arguments: workArgs{Token: token, Note: "hello"}})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || result.IsError {
		l.failed++
		return false
	}
	l.answered[token] = true
	return true
}

func (l *load) stop() answers {
	l.cancel()
	l.wg.Wait()
	return answers{l.answered, l.failed}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
