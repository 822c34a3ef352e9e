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

const (
	wantInterceptions = 20_000 // a second
	mostSealing       = 5      // percent
)

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
	start = time.Now()
	before, err := st.used()
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
	after, err := st.used()
	if err != nil {
		return nil, err
	}
	if err := st.recount(ctx, s.events); err != nil {
		return nil, err
	}
	own, engine := micros(after.own-before.own)/float64(s.events), micros(after.engine-before.engine)/float64(s.events)
	sealing, err := st.seal(ctx, lastEvent)
	if err != nil {
		return nil, err
	}
	rows = []row{
		atLeast("stream", "both streams to ClickHouse, embedded engine", float64(s.events)/took.Seconds(), wantInterceptions, "interceptions/s"),
		beside("stream", "processor time for it, reading, writing and engine together", own+engine, "µs/interception"),
		beside("stream", "of it the engine's, with the merges that ran meanwhile", engine, "µs/interception"),
		beside("stream", "before it: record and publish", filled, "interceptions/s"),
	}
	rows = append(rows, atMost("stream", "sealing the same events, of the processor time for storing them",
		100*micros(sealing)/float64(s.events)/(own+engine), mostSealing, "%"))
	sizes, err := st.sizes(ctx, s.events)
	return append(rows, sizes...), err
}

// usage is the processor time of both processes.
type usage struct{ own, engine time.Duration }

func (s *stack) used() (u usage, err error) {
	if u.own, err = processorTime(os.Getpid()); err != nil {
		return u, err
	}
	u.engine, err = processorTime(s.engine.PID())
	return u, err
}

// sizes tells what the tables take on disk, as far as their parts were merged by now.
func (s *stack) sizes(ctx context.Context, n int) ([]row, error) {
	const query = "SELECT toFloat64(sumIf(bytes_on_disk, table NOT IN ('bodies', 'open_items', 'events'))), toFloat64(sumIf(bytes_on_disk, table = 'events')), " +
		"toFloat64(sumIf(bytes_on_disk, table = 'open_items')), toFloat64(sumIf(bytes_on_disk, table = 'bodies')), toFloat64(count()) " +
		"FROM system.parts WHERE active AND database = currentDatabase()"
	var typed, events, items, bodies, parts float64
	if err := s.conn.QueryRow(ctx, query).Scan(&typed, &events, &items, &bodies, &parts); err != nil {
		return nil, err
	}
	each := func(what string, size float64) row { return beside("stream", what, size/float64(n), "B/interception") }
	return []row{
		each("at rest: typed tables (interceptions)", typed),
		each("at rest: sealed events", events),
		each("at rest: contexts", items),
		each("at rest: bodies of 2 KB each", bodies),
		beside("stream", "parts of all tables after it", parts, ""),
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
