package interceptor

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// pending is a call over a session until it is answered: by whoever ran its handler, or when its time is over or its
// invoker gave up by whoever noticed.
type pending struct {
	session *session
	id      jsonx.Value
	key     string // of session.calls
	flight  *flight
	cancel  context.CancelCauseFunc
	claimed atomic.Bool // somebody answers it
}

// run runs the handler to its end, and answers if nobody has by then. ctx is that of the session.
func (p *pending) run(ctx, limited context.Context) {
	stop := context.AfterFunc(limited, func() {
		if p.claimed.CompareAndSwap(false, true) {
			p.finish(ctx, limited, nil, p.flight.failure(ctx, context.Cause(limited))) // the flight stays the handler's
		}
	})
	f := p.flight
	f.run(limited)
	stop()
	if p.claimed.CompareAndSwap(false, true) {
		result, err := f.answer(ctx, limited)
		p.session.server.release(f)
		p.finish(ctx, limited, result, err)
	}
}

// finish answers the call, unless it was cancelled, and frees its id.
func (p *pending) finish(ctx, limited context.Context, result jsonx.Value, err error) {
	defer p.session.open.Done()
	p.session.mu.Lock()
	delete(p.session.calls, p.key)
	p.session.mu.Unlock()
	if !errors.Is(context.Cause(limited), errCancelled) {
		p.session.answer(ctx, p.id, result, err)
	}
}
