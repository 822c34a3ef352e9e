package gateway

import (
	"context"
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
	fail func(*schemas.Record) error
	wake chan struct{}
}

func newLedger() *ledger { return &ledger{wake: make(chan struct{})} }

func (l *ledger) Record(_ context.Context, rec *schemas.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(rec); err != nil {
			return err
		}
	}
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

// waitFor waits until the records hold what ok looks for.
func (l *ledger) waitFor(t *testing.T, what string, ok func([]*schemas.Record) bool) {
	t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		l.mu.Lock()
		done, wake := ok(l.all), l.wake
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-wake:
		case <-limit.C:
			t.Fatalf("no record of %s within 10 s; have %v", what, l.lines())
		}
	}
}

func (l *ledger) waitOutcome(t *testing.T, method string, outcome schemas.Outcome) *schemas.Record {
	t.Helper()
	var found *schemas.Record
	l.waitFor(t, method+" "+string(outcome), func(all []*schemas.Record) bool {
		for _, r := range all {
			if r.Event.Kind == schemas.KindOutcome && r.Event.Operation.Event == method && r.Event.Decision.Outcome == outcome {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// waitRequest waits for the request event of a tool call.
func (l *ledger) waitRequest(t *testing.T) {
	t.Helper()
	l.waitFor(t, "request of a call", func(all []*schemas.Record) bool {
		for _, r := range all {
			if r.Event.Kind == schemas.KindRequest && r.Event.Operation.Event == methodToolsCall {
				return true
			}
		}
		return false
	})
}

func (l *ledger) lines() []string {
	var out []string
	for _, r := range l.records() {
		line := string(r.Event.Kind) + " " + r.Event.Operation.Event
		if r.Event.Kind == schemas.KindOutcome {
			line += " " + string(r.Event.Decision.Outcome) + " " + r.Event.Decision.Cause
		}
		out = append(out, line)
	}
	return out
}

// check fails unless every exchange has exactly one request event, followed by exactly one outcome.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	state := map[uuid.UUID]int{}
	for _, r := range l.records() {
		if r.Event.Kind == schemas.KindPlan {
			continue
		}
		id := r.Event.Correlation.Exchange
		switch r.Event.Kind {
		case schemas.KindRequest:
			if state[id] != 0 {
				t.Errorf("exchange %s: second request event, or one after the outcome", id)
			}
			state[id] = 1
		case schemas.KindOutcome:
			if state[id] != 1 {
				t.Errorf("exchange %s: outcome in state %d, want 1", id, state[id])
			}
			state[id] = 2
			if r.Event.Decision.Outcome == "" {
				t.Errorf("exchange %s: no outcome", id)
			}
		default:
			t.Errorf("event of kind %s", r.Event.Kind)
		}
	}
	for id, s := range state {
		if s != 2 {
			t.Errorf("exchange %s has no outcome", id)
		}
	}
	if t.Failed() {
		t.Log(l.lines())
	}
}

func item(r *schemas.Record, role schemas.Role) []byte {
	for _, it := range r.Items {
		if it.Role == role {
			return it.Data
		}
	}
	return nil
}
