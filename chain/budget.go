package chain

import (
	"sync"
	"time"
)

// budget bounds how much time invocations may take: an allowance per minute that fills up evenly and holds at most a
// minute's worth. An invocation may overdraw it once, because what it takes is known only afterwards.
type budget struct {
	per int64 // milliseconds in a minute

	mu   sync.Mutex // covers the rest
	left time.Duration
	at   time.Time
}

func newBudget(perMinuteMS int64) *budget {
	return &budget{per: perMinuteMS, left: time.Duration(perMinuteMS) * time.Millisecond}
}

// spent reports whether nothing is left at a moment. A nil budget is never spent.
func (b *budget) spent(now time.Time) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	full := time.Duration(b.per) * time.Millisecond
	if !b.at.IsZero() {
		past := min(max(0, now.Sub(b.at)), time.Minute)
		b.left = min(full, b.left+time.Duration(float64(full)*past.Minutes()))
	}
	b.at = now
	return b.left <= 0
}

// charge takes what an invocation took.
func (b *budget) charge(d time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= d
}
