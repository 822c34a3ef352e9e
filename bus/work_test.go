package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
)

func newWork(tb testing.TB, s *bustest.Server, cfg bus.WorkConfig) *bus.Work {
	tb.Helper()
	w, err := bus.NewWork(s.JetStream(), cfg, discard())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.Close)
	return w
}

func next(tb testing.TB, w *bus.Work) bus.Job {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	job, err := w.Next(ctx)
	if err != nil {
		tb.Fatalf("next job: %v", err)
	}
	return job
}

func TestWorkIsHandedOutUntilAcknowledged(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 6; seq++ {
		e := entry(writer, seq, 200)
		e.Kind = []schemas.Kind{schemas.KindRequest, schemas.KindOutcome, schemas.KindPlan}[seq%3]
		j.add(e)
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 6)
	w := newWork(t, server, bus.WorkConfig{Name: "a.sink / with *", AckWait: 200 * time.Millisecond})
	deliveries := map[uint64]int{}
	for done := 0; done < 4; {
		job := next(t, w)
		s, err := bus.ParseSubject(job.Message.Subject)
		if err != nil || s.Kind == schemas.KindPlan {
			t.Fatalf("position %d has kind %q (%v)", job.Message.Position, s.Kind, err)
		}
		switch deliveries[job.Message.Position]++; job.Deliveries {
		case 1: // left alone: comes again after AckWait
		case 2:
			if err := job.Nak(0); err != nil {
				t.Error(err)
			}
		default:
			if err := job.InProgress(); err != nil {
				t.Error(err)
			}
			if err := job.Ack(t.Context()); err != nil {
				t.Error(err)
			}
			done++
		}
	}
	for position, n := range deliveries {
		if n != 3 {
			t.Errorf("position %d was handed out %d times, want 3", position, n)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if job, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after all was acknowledged position %d came (%v)", job.Message.Position, err)
	}
}

// One worker that hangs does not keep another interceptor's work, and its own comes back elsewhere.
func TestWorkOfOneInterceptorIsShared(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	hanging := newWork(t, server, bus.WorkConfig{Name: "slow", MaxPending: 4, Prefetch: 4, AckWait: 300 * time.Millisecond})
	for seq := uint64(1); seq <= 20; seq++ {
		j.add(entry(writer, seq, 200))
	}
	_ = next(t, hanging) // and never again
	other := newWork(t, server, bus.WorkConfig{Name: "quick"})
	for range 20 {
		if err := next(t, other).Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	second := newWork(t, server, bus.WorkConfig{Name: "slow", MaxPending: 4, Prefetch: 4, AckWait: 300 * time.Millisecond})
	seen := map[uint64]bool{}
	for len(seen) < 20 {
		job := next(t, second)
		if err := job.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen[job.Message.Position] = true
	}
}

func TestWorkThroughOutages(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 200; seq++ {
		j.add(entry(writer, seq, 200))
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 200)
	w := newWork(t, server, bus.WorkConfig{Name: "sink", AckWait: 300 * time.Millisecond})
	done := map[uint64]bool{}
	for n := 0; len(done) < 200; n++ {
		switch n {
		case 20, 60:
			server.Cut()
		case 40, 80:
			server.Stop()
			server.Start()
		}
		job := next(t, w)
		if err := job.Ack(t.Context()); err == nil {
			done[job.Message.Position] = true
		}
	}
}

// A server that forgot that it handed out a job never answers the acknowledgement: nobody may wait for it.
func TestAckAfterReconnectDoesNotWait(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	j.add(entry(writer, 1, 200))
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 1)
	w := newWork(t, server, bus.WorkConfig{Name: "sink"})
	job := next(t, w)
	if err := js.DeleteConsumer(t.Context(), bus.EventStream(0), "chaintrail-work-sink"); err != nil {
		t.Fatal(err)
	}
	server.Cut()
	if _, err := bus.WaitReady(t.Context(), server.Conn()); err != nil {
		t.Fatal(err)
	}
	again := newWork(t, server, bus.WorkConfig{Name: "other"})
	_ = next(t, again) // the connections are back
	began := time.Now()
	for time.Since(began) < 4*time.Second {
		if err := job.Ack(t.Context()); err == nil {
			break // a connection that is still away refuses at once
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the acknowledgement took %s", took)
	}
}

func TestWorkBeginsWhereAsked(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 10; seq++ {
		j.add(entry(writer, seq, 200))
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 10)
	w := newWork(t, server, bus.WorkConfig{Name: "late", After: 7})
	job := next(t, w)
	if job.Message.Position != 8 {
		t.Errorf("the first job is at position %d, want 8", job.Message.Position)
	}
	if err := job.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	// Another start asks for another begin, and goes on where the consumer was.
	again := newWork(t, server, bus.WorkConfig{Name: "late", After: 2, MaxPending: 9})
	a, b := next(t, again).Message.Position, next(t, again).Message.Position
	if min(a, b) != 9 || max(a, b) != 10 { // in any order: both had been fetched ahead
		t.Errorf("after a restart the jobs are at positions %d and %d, want 9 and 10", a, b)
	}
}
