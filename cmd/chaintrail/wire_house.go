package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

const releaseEvery = 10 * time.Second

// keepHouse frees what is stored: journals, streams, and transient items past their time. Without a
// store the streams are the store: nothing is trimmed.
func (n *node) keepHouse(ctx context.Context) error {
	if n.store == nil {
		return n.freeJournal(ctx)
	}
	trim := bus.DefaultTrimConfig()
	trim.Streams = []string{bus.EventStream(shard), bus.OpenStream(shard)}
	trimmer, err := bus.NewTrimmer(n.bus.js, trim, n.floor, n.recordTrim, n.log)
	if err != nil {
		return err
	}
	sweeper := bus.NewSweeper(n.bus.js, []int{shard}, 0, n.log)
	for _, p := range []lifecycle.Part{
		lifecycle.Background("trimmer", trimmer.Run),
		lifecycle.Background("sweeper", sweeper.Run),
		lifecycle.Background("journal release", n.releaseJournals),
	} {
		if err := n.group.Start(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// floor is up to where nobody needs a stream any more.
func (n *node) floor(ctx context.Context, name string) (uint64, error) {
	events, err := bus.WorkFloor(ctx, n.bus.js, shard)
	if err != nil {
		return 0, err
	}
	for _, p := range n.pipelines {
		events = min(events, p.Stats().Position)
	}
	events = min(events, n.store.events.Stats().Position, n.sealed())
	if name == bus.EventStream(shard) {
		return events, nil
	}
	open, err := bus.OpenFloor(ctx, n.bus.js, shard, events)
	return min(open, n.store.open.Stats().Position), err
}

func (n *node) recordTrim(ctx context.Context, stream string, first, last uint64) error {
	return n.recorder.Record(ctx, &schemas.Record{Event: schemas.Event{
		Kind: schemas.KindAdmin, Admin: &schemas.Admin{Action: "trim", Name: stream, First: first, Last: last},
	}})
}

// releaseJournals tells the journals what the store really holds and is sealed: the numbers are read back from
// ClickHouse, and count only when the open items published before them are stored too.
func (n *node) releaseJournals(ctx context.Context) error {
	var stored map[uuid.UUID]uint64
	var openLast uint64
	known := map[uuid.UUID]readBack{}
	for retry.Sleep(ctx, releaseEvery) {
		if stored != nil && n.store.open.Stats().Position >= openLast {
			n.release(stored)
			stored = nil
		}
		if stored != nil {
			continue
		}
		var err error
		if stored, err = n.storedSeqs(ctx, known); err == nil {
			openLast, err = n.lastPosition(ctx, bus.OpenStream(shard))
		}
		if err != nil {
			stored = nil
			if ctx.Err() == nil {
				n.log.WarnContext(ctx, "journals wait for the store", slog.Any("error", err))
			}
		}
	}
	return nil
}

func (n *node) release(stored map[uuid.UUID]uint64) {
	for writer, seq := range stored {
		if writer == n.outbox.Writer() {
			if err := n.outbox.Release(seq); err != nil {
				n.log.Warn("release journal", slog.Any("error", err))
			}
			continue
		}
		if n.adopter != nil {
			n.adopter.Release(writer, seq)
		}
	}
}

// readBack is how far a writer's events were found in the store, without a gap.
type readBack struct{ seq, position uint64 }

// storedSeqs returns, for each journal held here, up to which number the store has every event. What was found before is in
// known and not counted again: the rest begins where the last of it lies. The rows themselves are asked for, since a bus that
// lost what it had acknowledged would have nothing to show either.
func (n *node) storedSeqs(ctx context.Context, known map[uuid.UUID]readBack) (map[uuid.UUID]uint64, error) {
	writers := []uuid.UUID{n.outbox.Writer()}
	if n.adopter != nil {
		for _, o := range n.adopter.Orphans() {
			writers = append(writers, o.Writer())
		}
	}
	maps.DeleteFunc(known, func(w uuid.UUID, _ readBack) bool { return !slices.Contains(writers, w) })
	stored := make(map[uuid.UUID]uint64, len(writers))
	sealed := n.sealed()
	for _, w := range writers {
		at := known[w]
		var count uint64
		var highest readBack
		err := n.store.conn.QueryRow(ctx, "SELECT max(seq), max(position), uniqExact(seq) FROM events "+
			"WHERE stream = ? AND position > ? AND position <= ? AND writer = ? AND seq > ?",
			bus.EventStream(shard), at.position, sealed, w.String(), at.seq).
			Scan(&highest.seq, &highest.position, &count)
		if err != nil {
			return nil, fmt.Errorf("read back what is stored of %s: %w", w, err)
		}
		if count > 0 && highest.seq == at.seq+count {
			at = highest
			known[w] = at
		}
		stored[w] = at.seq
	}
	return stored, nil
}
