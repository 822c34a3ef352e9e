package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/outbox"
)

var errNoStore = errors.New("there is no store: clickhouse.off is true")

// withStore gives a command the store: the configured one, the engine that runs on this data
// directory, else an engine of its own for the time of the command.
func (a *app) withStore(ctx context.Context, use func(ctx context.Context, n *node) error) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if cfg.ClickHouse.Off {
		return usage(errNoStore)
	}
	if a.logLevel == "" {
		cfg.Log.Level = "error" // what starts for one command is no news
	}
	n, err := newNode(a, cfg)
	if err != nil {
		return err
	}
	err = n.findStore(ctx, true)
	if err == nil {
		err = use(ctx, n)
	}
	return errors.Join(err, n.group.Stop(context.WithoutCancel(ctx)))
}

// withCurrentStore is withStore for reading: when nothing runs on this data directory, what lies in
// journals and streams is stored first.
func (a *app) withCurrentStore(ctx context.Context, use func(ctx context.Context, n *node) error) error {
	return a.withStore(ctx, func(ctx context.Context, n *node) error {
		if n.ownEngine {
			if err := n.catchUp(ctx); err != nil {
				return err
			}
		}
		return use(ctx, n)
	})
}

// catchUp publishes and stores everything that dead processes left.
func (n *node) catchUp(ctx context.Context) error {
	if n.cfg.Bus.URL != "" {
		return nil // the consumers of that bus store
	}
	journals, err := outbox.Journals(n.cfg.Dir("journals"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(journals) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{n.serveBus, n.writeStore, n.openJournal} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	if err := n.adoptNow(ctx); err != nil {
		return err
	}
	n.drainJournal(ctx)
	for _, w := range []struct {
		stream, text string
		writer       pipeline
	}{{bus.OpenStream(shard), "storing payloads", n.store.open}, {bus.EventStream(shard), "storing events", n.store.events}} {
		last, err := n.lastPosition(ctx, w.stream)
		if err != nil {
			return err
		}
		if err := n.follow(ctx, w.writer, w.text, last); err != nil {
			return err
		}
	}
	return nil
}

// follow waits until a writer has stored the stream up to a position.
func (n *node) follow(ctx context.Context, writer pipeline, text string, last uint64) error {
	p := n.app.progress(text, last)
	defer p.end()
	for at := writer.Stats().Position; at < last; at = writer.Stats().Position {
		p.set(at)
		if !pause(ctx) {
			return context.Cause(ctx)
		}
	}
	return nil
}
