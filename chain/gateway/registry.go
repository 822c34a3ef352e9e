package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// registry knows every open exchange of the gateway, so that a drain can wait for them and a stop
// can end them.
type registry struct {
	max int

	mu       sync.Mutex // guards what follows
	open     map[*exchange]struct{}
	parked   map[*exchange]struct{} // open, but nobody waits for them
	stopping bool
	idle     chan struct{} // closed when stopping and nothing is open; nil before
	waits    []*wait
}

// wait is for the exchanges that were open at one moment.
type wait struct {
	rest map[*exchange]struct{}
	done chan struct{} // closed when none of them is left
}

// parkedFactor is how many more exchanges may be parked than may be open.
const parkedFactor = 4

func newRegistry(limit int) *registry {
	return &registry{max: limit, open: make(map[*exchange]struct{}), parked: make(map[*exchange]struct{})}
}

func (r *registry) enter(x *exchange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping && !x.reverse: // what was begun may still ask back
		return ErrStopping
	case len(r.open) >= r.max, len(r.parked) >= parkedFactor*r.max:
		return errOverloaded
	}
	r.open[x] = struct{}{}
	return nil
}

func (r *registry) leave(x *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.parked, x)
	delete(r.open, x)
	r.noteGone(x)
}

// park takes an exchange out of what a drain waits for.
func (r *registry) park(x *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := r.open[x]; open {
		delete(r.open, x)
		r.parked[x] = struct{}{}
		r.noteGone(x)
	}
}

// settled returns a channel that is closed when every exchange that is open now has ended.
func (r *registry) settled() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &wait{rest: maps.Clone(r.open), done: make(chan struct{})}
	if len(w.rest) == 0 {
		close(w.done)
		return w.done
	}
	r.waits = append(r.waits, w)
	return w.done
}

func (r *registry) noteGone(x *exchange) {
	r.waits = slices.DeleteFunc(r.waits, func(w *wait) bool {
		if delete(w.rest, x); len(w.rest) > 0 {
			return false
		}
		close(w.done)
		return true
	})
	if r.idle != nil && len(r.open) == 0 {
		close(r.idle)
		r.idle = nil
	}
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open) + len(r.parked)
}

func (r *registry) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}

// stop refuses new exchanges and waits until none is open or ctx is done; then it returns what is
// still open, and what is parked.
func (r *registry) stop(ctx context.Context) (rest, parked []*exchange) {
	r.mu.Lock()
	r.stopping = true
	idle := r.idle
	if idle == nil && len(r.open) > 0 {
		idle = make(chan struct{})
		r.idle = idle
	}
	r.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.open)), slices.Collect(maps.Keys(r.parked))
}
