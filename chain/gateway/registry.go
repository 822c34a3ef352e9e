package gateway

import (
	"context"
	"sync"
)

// registry knows every open exchange of the gateway, so that a drain can wait for them and a stop
// can end them.
type registry struct {
	max int

	mu       sync.Mutex // guards what follows
	open     map[*exchange]struct{}
	stopping bool
	idle     chan struct{} // closed when stopping and nothing is open; nil before
}

func newRegistry(limit int) *registry {
	return &registry{max: limit, open: make(map[*exchange]struct{})}
}

func (r *registry) enter(x *exchange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping && !x.reverse: // what was begun may still ask back
		return ErrStopping
	case len(r.open) >= r.max:
		return errOverloaded
	}
	r.open[x] = struct{}{}
	return nil
}

func (r *registry) leave(x *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, x)
	if r.idle != nil && len(r.open) == 0 {
		close(r.idle)
		r.idle = nil
	}
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

func (r *registry) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}

// stop refuses new exchanges and waits until none is open or ctx is done; then it returns what is
// still open.
func (r *registry) stop(ctx context.Context) []*exchange {
	r.mu.Lock()
	r.stopping = true
	if len(r.open) == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := make([]*exchange, 0, len(r.open))
	for x := range r.open {
		rest = append(rest, x)
	}
	return rest
}
