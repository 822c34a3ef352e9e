package chain

import (
	"sync"
	"time"
)

// Budget bounds how much time the deferred invocations of an interceptor may take: an allowance per minute that fills up
// evenly and holds at most a minute's worth. Invocations that are under way when it is used up overdraw it, because what
// they take is known only afterwards. A nil Budget is never spent. All methods are concurrent.
type Budget struct {
	per time.Duration // in a minute

	mu   sync.Mutex // covers the rest
	left time.Duration
	at   time.Time
}

// NewBudget returns a full budget of so many milliseconds in a minute; nil, which is never spent, for 0 or less.
func NewBudget(perMinuteMS int64) *Budget {
	if perMinuteMS <= 0 {
		return nil
	}
	per := time.Duration(min(perMinuteMS, maxBudgetMS)) * time.Millisecond
	return &Budget{per: per, left: per}
}

// maxBudgetMS is as good as no bound: all that so many invocations at a time can take.
const maxBudgetMS = int64(1_000_000 * time.Minute / time.Millisecond)

// Spent reports whether nothing is left at a moment.
func (b *Budget) Spent(now time.Time) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() {
		filled := float64(b.per) * max(0, now.Sub(b.at)).Minutes()
		if filled < float64(b.per-b.left) {
			b.left += time.Duration(filled)
		} else {
			b.left = b.per
		}
	}
	b.at = now
	return b.left <= 0
}

// Charge takes what an invocation took.
func (b *Budget) Charge(d time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= d
}
