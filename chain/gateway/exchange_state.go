package gateway

import (
	"context"
	"time"
)

// arm makes a context for a phase that an interrupt ends.
func (x *exchange) arm(ctx context.Context) (context.Context, func()) {
	own, cancel := context.WithCancelCause(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancel = cancel
	if x.stopCause != nil {
		cancel(x.stopCause)
	}
	return own, func() { cancel(nil) }
}

// forwarded notes that the other side gets the request now, unless it was interrupted.
func (x *exchange) forwarded() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopCause != nil {
		return x.stopCause
	}
	x.state, x.sentAt = stateForwarded, time.Now()
	return nil
}

// claim takes the right to end a forwarded exchange.
func (x *exchange) claim() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != stateForwarded {
		return false
	}
	x.state = stateSettling
	return true
}

func (x *exchange) interrupted() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stopCause
}

func (x *exchange) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state == stateEnded
}
