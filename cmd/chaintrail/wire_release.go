package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/ledger"
)

const releaseEvery = 10 * time.Second

// heldJournal is a journal of this process: its own, or that of a dead writer.
type heldJournal struct {
	writer    uuid.UUID
	tenant    string
	published uint64
	release   func(seq uint64) error
}

// freeJournals releases what is stored and sealed. Without it the journal of a long-lived gateway would only grow.
func (n *node) freeJournals(ctx context.Context) error {
	return n.group.Start(ctx, lifecycle.Background("journal release", func(ctx context.Context) error {
		if _, err := n.bus.wait(ctx); err != nil {
			return nil //nolint:nilerr // no bus: everything stays in the journals
		}
		known := map[uuid.UUID]readBack{}
		var warned time.Time
		for retry.Sleep(ctx, releaseEvery) {
			err := n.freeOnce(ctx, known)
			if err == nil || ctx.Err() != nil || time.Since(warned) < time.Minute {
				continue
			}
			warned = time.Now()
			n.log.WarnContext(ctx, "journals wait for the store", slog.Any("error", err))
		}
		return nil
	}))
}

// freeOnce releases what is stored and sealed; without a store anywhere, what the bus has.
func (n *node) freeOnce(ctx context.Context, known map[uuid.UUID]readBack) error {
	ctx, cancel := context.WithTimeout(ctx, releaseEvery)
	defer cancel()
	held := n.heldJournals() // before anything is asked: what is published later is not counted
	events, items, err := n.done(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(known, func(w uuid.UUID, _ readBack) bool {
		for i := range held {
			if held[i].writer == w {
				return false
			}
		}
		return true
	})
	var errs []error
	for i := range held {
		h := &held[i]
		q := bus.StoredQuery{Shard: shard, Tenant: h.tenant, Writer: h.writer, Most: h.published, Events: events, Items: items}
		if n.store != nil {
			if q.Most, err = n.readBack(ctx, h.writer, known); err != nil {
				errs = append(errs, err)
				continue
			}
			q.Events = math.MaxUint64
		}
		seq, err := bus.StoredSeq(ctx, n.bus.js, q)
		if err == nil {
			err = h.release(seq)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (n *node) heldJournals() []heldJournal {
	held := []heldJournal{{n.outbox.Writer(), n.outbox.Tenant(), n.outbox.Stats().Published, n.outbox.Release}}
	if n.adopter == nil {
		return held
	}
	for _, o := range n.adopter.Orphans() {
		published, _ := o.Progress()
		held = append(held, heldJournal{o.Writer(), o.Tenant(), published, func(seq uint64) error {
			n.adopter.Release(o.Writer(), seq)
			return nil
		}})
	}
	return held
}

// done returns up to where the event stream is stored and sealed, and the open stream stored: by this process, or by
// others, of which it sees the cursors.
func (n *node) done(ctx context.Context) (events, items uint64, err error) {
	if n.store != nil {
		return n.store.events.Stats().Position, n.store.open.Stats().Position, nil
	}
	cursors := bus.NewCursors(n.bus.js)
	for _, s := range []struct {
		stream string
		at     *uint64
	}{{bus.EventStream(shard), &events}, {bus.OpenStream(shard), &items}} {
		if n.cfg.ClickHouse.Off {
			*s.at, err = n.lastPosition(ctx, s.stream)
		} else {
			*s.at, err = clickhouse.Stored(ctx, cursors, "", s.stream)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if !n.cfg.Seal.Off {
		sealed, _, err := ledger.Sealed(ctx, cursors, bus.EventStream(shard))
		if err != nil {
			return 0, 0, err
		}
		events = min(events, sealed)
	}
	return events, items, nil
}

// readBack is how far a writer's events were found in the store and are sealed, without a gap.
type readBack struct{ seq, position uint64 }

// readBack returns up to which number the store has every event of a writer, sealed. What was found before is in known and not
// counted again: the rest begins where the last of it lies. The rows themselves are asked for, since a bus that lost what it
// had acknowledged would have nothing to show either.
func (n *node) readBack(ctx context.Context, w uuid.UUID, known map[uuid.UUID]readBack) (uint64, error) {
	at := known[w]
	var count uint64
	var highest readBack
	err := n.store.conn.QueryRow(ctx, "SELECT max(seq), max(position), uniqExact(seq) FROM events "+
		"WHERE stream = ? AND position > ? AND position <= ? AND writer = ? AND seq > ?",
		bus.EventStream(shard), at.position, n.sealed(), w.String(), at.seq).
		Scan(&highest.seq, &highest.position, &count)
	if err != nil {
		return 0, fmt.Errorf("read back what is stored of %s: %w", w, err)
	}
	if count > 0 && highest.seq == at.seq+count {
		at = highest
		known[w] = at
	}
	return at.seq, nil
}
