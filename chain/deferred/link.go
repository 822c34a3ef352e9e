package deferred

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// link is an interceptor server that is connected again when its connection was lost.
type link struct {
	connect func(context.Context) (chain.Conn, error)

	mu   sync.Mutex // covers conn, and lets one call at a time connect
	conn chain.Conn
}

// Call implements chain.Caller. It returns [chain.ErrLost] when the call was not sent.
func (l *link) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	conn, err := l.live(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", chain.ErrLost, err)
	}
	return conn.Call(ctx, method, params)
}

func (l *link) live(ctx context.Context) (chain.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && !closed(l.conn.Done()) {
		return l.conn, nil
	}
	if l.conn != nil {
		_ = l.conn.Close() // it is lost already
		l.conn = nil
	}
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errors.New("no connection was made")
	}
	l.conn = conn
	return conn, nil
}

// Close ends the connection, if there is one.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil
	}
	conn := l.conn
	l.conn = nil
	return conn.Close()
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
