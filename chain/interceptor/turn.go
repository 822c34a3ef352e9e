package interceptor

import (
	"sync/atomic"
	"time"
)

// stayed is how often a session looks whether its reader is still in the handler it was in before: what other calls
// have to wait at most, when a handler that was always fast is slow for once, is twice that.
const stayed = time.Millisecond

// turn says who reads a session. It is for a reader that runs something which may stay: when it does, another reader
// takes over. The timer behind it is not touched by a turn that ends soon, and stops when there are no more turns.
type turn struct {
	count   atomic.Uint64 // odd while a reader runs something
	seen    atomic.Uint64 // count when last looked at
	watched atomic.Bool   // the timer runs
	timer   *time.Timer
}

// init sets what starts another reader.
func (t *turn) init(takeOver func()) {
	t.timer = time.AfterFunc(time.Hour, func() { t.look(takeOver) })
	t.timer.Stop()
}

// begin is called by the reader before what may stay.
func (t *turn) begin() (ticket uint64) {
	ticket = t.count.Add(1)
	t.watch()
	return ticket
}

// end is called by the reader afterwards; false means that another one reads by now.
func (t *turn) end(ticket uint64) bool { return t.count.CompareAndSwap(ticket, ticket+1) }

func (t *turn) watch() {
	if !t.watched.Load() && t.watched.CompareAndSwap(false, true) {
		t.timer.Reset(stayed)
	}
}

// look runs when the timer fires.
func (t *turn) look(takeOver func()) {
	now := t.count.Load()
	if t.seen.Swap(now) != now { // turns came and went
		t.timer.Reset(stayed)
		return
	}
	t.watched.Store(false)
	if now%2 == 1 && t.count.CompareAndSwap(now, now+1) {
		takeOver()
	} else if t.count.Load() != now { // a turn began that saw the timer running
		t.watch()
	}
}
