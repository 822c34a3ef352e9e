package gateway

import (
	"sync"
	"time"
)

// refusalsEvery is how often it is worth a line in the log that events are not recorded: under a full
// journal every call is refused, and each caller is told.
const refusalsEvery = 10 * time.Second

// refusals counts events that could not be recorded, between two lines of the log. The zero value is ready.
type refusals struct {
	mu    sync.Mutex // covers both
	said  time.Time
	since uint64
}

// note counts one; say tells whether it is time for a line, and n how many there were since the last.
func (r *refusals) note(now time.Time) (n uint64, say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	if !r.said.IsZero() && now.Sub(r.said) < refusalsEvery {
		return 0, false
	}
	n, r.since, r.said = r.since, 0, now
	return n, true
}
