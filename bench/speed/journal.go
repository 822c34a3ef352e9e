package main

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/chaintrail/chaintrail/audit/redact"
	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const (
	journalBatch   = 2000 // records of one measurement
	journalBatches = 15
	journalStep    = 20 // divides every batch
)

// measureJournal measures the wait of the request path for its record.
func measureJournal(ctx context.Context, s settings) (rows []row, err error) {
	o, err := outbox.Open(ctx, outbox.Config{Dir: filepath.Join(s.dir, "journals"), Gateway: "bench"}, s.log)
	if err != nil {
		return nil, err
	}
	house := lifecycle.Background("journal", o.Run)
	if err := house.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close(ctx), house.Stop(ctx)) }()
	policy, err := redact.NewRecorder(o, redact.Policy{}, &redact.RecorderOptions{SnapshotKey: seal.Key{9}})
	if err != nil {
		return nil, err
	}
	var plain, whole cost
	for i := range journalBatches + 1 {
		m := newMaker()
		events := make([]*schemas.Record, journalBatch)
		for i := range events {
			events[i], _ = m.call()
		}
		a, err := measureRecords(ctx, o, events)
		if err != nil {
			return nil, err
		}
		calls := make([]*schemas.Record, 0, 2*journalBatch)
		for range journalBatch {
			request, outcome := m.call()
			calls = append(calls, request, outcome)
		}
		b, err := measureRecords(ctx, policy, calls)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first warms up
			plain.add(a, len(events))
			whole.add(b, len(calls)/2)
		}
	}
	one := atMost("journal", "Record of a 2 KB event, process durability: mean", median(plain.micros), 15, "µs")
	one.measured += calmest(plain.steps)
	call := atMost("journal", "a whole call: policy, request and outcome record: mean", median(whole.micros), 30, "µs")
	call.measured += calmest(whole.steps)
	return []row{
		one, atMost("journal", "Record of a 2 KB event: allocations", median(plain.allocs), 5, ""),
		call, beside("journal", "a whole call: allocations", median(whole.allocs), ""),
	}, nil
}

// cost collects what batches took.
type cost struct {
	micros, allocs []float64
	steps          samples // of one operation, as the mean of a step
}

func (c *cost) add(b batchCost, n int) {
	c.micros = append(c.micros, micros(b.time)/float64(n))
	c.allocs = append(c.allocs, float64(b.allocs)/float64(n))
	for _, step := range b.steps {
		c.steps = append(c.steps, step*time.Duration(b.records)/time.Duration(n)/journalStep)
	}
}

type batchCost struct {
	time    time.Duration
	allocs  uint64
	records int
	steps   samples // of journalStep records each
}

type recorder interface {
	Record(ctx context.Context, rec *schemas.Record) error
}

// measureRecords records one after the other: the mean includes what the journal does in between,
// such as changing to the next segment.
func measureRecords(ctx context.Context, to recorder, records []*schemas.Record) (batchCost, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	steps := make(samples, 0, len(records)/journalStep)
	start := time.Now()
	for step := range slices.Chunk(records, journalStep) {
		began := time.Now()
		for _, rec := range step {
			if err := to.Record(ctx, rec); err != nil {
				return batchCost{}, err
			}
		}
		steps = append(steps, time.Since(began))
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return batchCost{took, after.Mallocs - before.Mallocs, len(records), steps}, nil
}
