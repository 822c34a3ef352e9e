package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// store is ClickHouse with the two writers that fill it.
type store struct {
	conn         driver.Conn
	events, open *clickhouse.Writer
}

// pipeline is anything that moves a stream somewhere.
type pipeline interface {
	Run(ctx context.Context) error
	Stats() sinks.Stats
}

// writeStore migrates the database and moves both streams into it.
func (n *node) writeStore(ctx context.Context) error {
	if n.dsn == "" {
		return nil
	}
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	if err := n.migrate(ctx, conn); err != nil {
		_ = conn.Close()
		return err
	}
	n.store = &store{conn: conn}
	for _, w := range []struct {
		stream  string
		content clickhouse.Content
		to      **clickhouse.Writer
	}{
		{bus.OpenStream(shard), clickhouse.ContentOpen, &n.store.open},
		{bus.EventStream(shard), clickhouse.ContentEvents, &n.store.events},
	} {
		*w.to, err = clickhouse.NewWriter(clickhouse.Config{
			Content: w.content, Source: bus.NewReader(n.bus.js, w.stream, nil, n.log), Cursors: bus.NewCursors(n.bus.js),
			Letters: n.letters("clickhouse"), Conn: conn, Options: &sinks.Options{Log: n.log},
			Sabotage: n.sabotageFor("double-insert", "drop-range"),
		})
		if err != nil {
			return err
		}
		if err := n.group.Start(ctx, n.drained("store "+w.stream, w.stream, *w.to)); err != nil {
			return err
		}
	}
	return nil
}

// migrate waits for the server, not for a wrong schema or version.
func (n *node) migrate(ctx context.Context, conn driver.Conn) error {
	policy := retry.Policy{Max: 2 * time.Second, MaxElapsed: time.Minute, Notify: retry.Seldom(func(err error, _ int, _ time.Duration) {
		n.log.WarnContext(ctx, "waiting for ClickHouse", slog.Any("error", err))
	})}
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		applied, err := clickhouse.Migrate(ctx, conn, nil)
		for _, m := range applied {
			n.log.DebugContext(ctx, "migrated", slog.String("migration", m.Name))
		}
		return err
	})
}

// drained is a part that, when told to stop, first moves what its stream holds, as long as it may.
func (n *node) drained(name, stream string, p pipeline) lifecycle.Part {
	part := lifecycle.Background(name, p.Run)
	stop := part.Stop
	part.Stop = func(ctx context.Context) error {
		last, err := n.lastPosition(ctx, stream)
		for err == nil && p.Stats().Position < last {
			if !pause(ctx) {
				break
			}
		}
		return stop(ctx)
	}
	return part
}

func (n *node) lastPosition(ctx context.Context, stream string) (uint64, error) {
	s, err := n.bus.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", stream, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// pause waits a moment; false means that ctx has ended.
func pause(ctx context.Context) bool { return retry.Sleep(ctx, 20*time.Millisecond) }
