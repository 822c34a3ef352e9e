package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/chaintrail/chaintrail/audit/redact"
	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const wantInterceptions = 20_000 // a second

// measureStream fills both streams through journal and publisher, then lets both writers catch up.
func measureStream(ctx context.Context, s settings) (rows []row, err error) {
	st := newStack(s.dir, s.log)
	defer func() { err = errors.Join(err, st.stop()) }() //nolint:contextcheck // the stop outlives ctx
	if err := st.startBus(ctx); err != nil {
		return nil, err
	}
	if err := st.startEngine(ctx, s.self); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.conn.Close()) }()
	if err := st.startJournal(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := st.fill(ctx, s.events); err != nil {
		return nil, err
	}
	filled := float64(s.events) / time.Since(start).Seconds()
	lastEvent, err := st.last(ctx, bus.EventStream(0))
	if err != nil {
		return nil, err
	}
	lastItem, err := st.last(ctx, bus.OpenStream(0))
	if err != nil {
		return nil, err
	}
	pids := []int{os.Getpid(), st.engine.PID()}
	start = time.Now()
	before, err := processorTime(pids...)
	if err != nil {
		return nil, err
	}
	events, open, err := st.startWriters(ctx)
	if err != nil {
		return nil, err
	}
	err = harness.WaitFor(ctx, "the writers have caught up", 2*time.Minute, func() bool {
		return events.Stats().Position >= lastEvent && open.Stats().Position >= lastItem
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	after, err := processorTime(pids...)
	if err != nil {
		return nil, err
	}
	if err := st.recount(ctx, s.events); err != nil {
		return nil, err
	}
	return []row{
		atLeast("stream", "both streams to ClickHouse, embedded engine", float64(s.events)/took.Seconds(), wantInterceptions, "interceptions/s"),
		beside("stream", "processor time for it, reading, writing and engine together", micros(after-before)/float64(s.events), "µs/interception"),
		beside("stream", "before it: record and publish", filled, "interceptions/s"),
	}, nil
}

// fill records n interceptions of 2 KB, half of them requests, and waits until they are published.
func (s *stack) fill(ctx context.Context, n int) error {
	policy, err := redact.NewRecorder(s.outbox, redact.Policy{}, &redact.RecorderOptions{SnapshotKey: seal.Key{9}})
	if err != nil {
		return err
	}
	m := newMaker()
	for range n / 2 {
		request, outcome := m.call()
		if err := policy.Record(ctx, request); err != nil {
			return err
		}
		if err := policy.Record(ctx, outcome); err != nil {
			return err
		}
	}
	return harness.WaitFor(ctx, "everything is published", time.Minute, func() bool {
		stats := s.outbox.Stats()
		return stats.Published == stats.Seq
	})
}

func (s *stack) last(ctx context.Context, stream string) (uint64, error) {
	info, err := s.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return info.CachedInfo().State.LastSeq, nil
}

// recount asks the store: a rate counts only for rows that are there.
func (s *stack) recount(ctx context.Context, want int) error {
	var interceptions, bodies int64
	if err := s.conn.QueryRow(ctx, "SELECT toInt64(count()) FROM interceptions").Scan(&interceptions); err != nil {
		return err
	}
	if err := s.conn.QueryRow(ctx, "SELECT toInt64(count()) FROM bodies").Scan(&bodies); err != nil {
		return err
	}
	if interceptions != int64(want) || bodies != int64(want) {
		return fmt.Errorf("%d interceptions and %d bodies are stored, want %d of each", interceptions, bodies, want)
	}
	return nil
}
