package gateway

import (
	"context"
	"sync"
)

// life ends what goes on: it holds the cancel function of everything under way, so that Close can
// end it and wait.
type life struct {
	mu     sync.Mutex // guards what follows
	closed bool
	next   uint64
	cancel map[uint64]context.CancelCauseFunc
	done   sync.WaitGroup
}

func newLife() *life { return &life{cancel: make(map[uint64]context.CancelCauseFunc)} }

// begin gives something its context, which ends with Close, and with ctx unless detached. end MUST
// be called once; it is nil when the gateway is closed.
func (l *life) begin(ctx context.Context, detached bool) (own context.Context, end func()) {
	if detached {
		ctx = context.WithoutCancel(ctx)
	}
	own, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		cancel(ErrStopping)
		return own, nil
	}
	l.next++
	n := l.next
	l.cancel[n] = cancel
	l.done.Add(1)
	return own, func() {
		cancel(nil)
		l.mu.Lock()
		delete(l.cancel, n)
		l.mu.Unlock()
		l.done.Done()
	}
}

// close ends everything and waits for it, or until ctx is done.
func (l *life) close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	for _, cancel := range l.cancel {
		cancel(ErrStopping)
	}
	l.mu.Unlock()
	waited := make(chan struct{})
	go func() { // exits when everything under way has ended
		l.done.Wait()
		close(waited)
	}()
	select {
	case <-waited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
