package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/ledger"
)

// freeJournal releases this process's own journal when others store: it sees no store, but the cursors of
// those that fill it. Without it the journal of a long-lived gateway would only grow.
func (n *node) freeJournal(ctx context.Context) error {
	return n.group.Start(ctx, lifecycle.Background("journal release", func(ctx context.Context) error {
		if _, err := n.bus.wait(ctx); err != nil {
			return nil //nolint:nilerr // no bus: everything stays in the journal
		}
		var warned time.Time
		for retry.Sleep(ctx, releaseEvery) {
			err := n.freeOnce(ctx)
			if err == nil || ctx.Err() != nil || time.Since(warned) < time.Minute {
				continue
			}
			warned = time.Now()
			n.log.WarnContext(ctx, "the journal waits for the store", slog.Any("error", err))
		}
		return nil
	}))
}

// freeOnce releases what is stored and sealed; without a store anywhere, what the bus has.
func (n *node) freeOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, releaseEvery)
	defer cancel()
	seq := n.outbox.Stats().Published // before anything is asked: what comes later is not counted
	if !n.cfg.ClickHouse.Off || !n.cfg.Seal.Off {
		events, items, err := n.done(ctx)
		if err != nil {
			return err
		}
		seq, err = bus.StoredSeq(ctx, n.bus.js, bus.StoredQuery{
			Shard: shard, Tenant: n.cfg.Tenant, Writer: n.outbox.Writer(), Most: seq, Events: events, Items: items,
		})
		if err != nil {
			return err
		}
	}
	return n.outbox.Release(seq)
}

// done returns up to where others have stored and sealed the event stream, and stored the open stream.
func (n *node) done(ctx context.Context) (events, items uint64, err error) {
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
