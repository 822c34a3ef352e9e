package interop_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// ledger is a recorder that keeps everything.
type ledger struct {
	mu   sync.Mutex
	all  []*schemas.Record
	wake chan struct{}
}

func newLedger() *ledger { return &ledger{wake: make(chan struct{})} }

// Record implements chain.Recorder.
func (l *ledger) Record(_ context.Context, rec *schemas.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, rec)
	close(l.wake)
	l.wake = make(chan struct{})
	return nil
}

func (l *ledger) records() []*schemas.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*schemas.Record(nil), l.all...)
}

// outcomes are the ends of exchanges, as "event outcome cause".
func (l *ledger) outcomes() []string {
	var out []string
	for _, r := range l.records() {
		if r.Event.Kind == schemas.KindOutcome {
			out = append(out, fmt.Sprintf("%s %s %s", r.Event.Operation.Event, r.Event.Decision.Outcome, r.Event.Decision.Cause))
		}
	}
	return out
}

// waitOutcome waits for one of [ledger.outcomes].
func (l *ledger) waitOutcome(t *testing.T, want string) {
	t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		l.mu.Lock()
		wake := l.wake
		found := false
		for _, r := range l.all {
			if r.Event.Kind == schemas.KindOutcome && want == fmt.Sprintf("%s %s %s", r.Event.Operation.Event, r.Event.Decision.Outcome, r.Event.Decision.Cause) {
				found = true
			}
		}
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-wake:
		case <-limit.C:
			t.Fatalf("no outcome %q within 10 s; have %q", want, l.outcomes())
		}
	}
}

// check fails unless every exchange has one request event, followed by one outcome.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	state := map[uuid.UUID]int{}
	for _, r := range l.records() {
		id, want := r.Event.Correlation.Exchange, 0
		if r.Event.Kind == schemas.KindOutcome {
			want = 1
		}
		if state[id] != want {
			t.Errorf("exchange %s: %s event in state %d", id, r.Event.Kind, state[id])
		}
		state[id]++
	}
	for id, s := range state {
		if s != 2 {
			t.Errorf("exchange %s has no outcome", id)
		}
	}
}
