package retry

import (
	"sync"
	"time"
)

// SeldomEvery is how often an outage is worth a line in the log.
const SeldomEvery = 30 * time.Second

// Seldom returns a [Policy].Notify that calls notify at most once in [SeldomEvery], the first time at once. It may be
// shared by concurrent calls of Do.
func Seldom(notify func(err error, tries int, pause time.Duration)) func(err error, tries int, pause time.Duration) {
	var mu sync.Mutex // covers said
	var said time.Time
	return func(err error, tries int, pause time.Duration) {
		mu.Lock()
		now := time.Now()
		quiet := !said.IsZero() && now.Sub(said) < SeldomEvery
		if !quiet {
			said = now
		}
		mu.Unlock()
		if !quiet {
			notify(err, tries, pause)
		}
	}
}
