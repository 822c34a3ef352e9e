package main

import (
	"context"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas"
)

// keepHouse frees what is stored: journals, streams, and transient items past their time. Without a
// store the streams are the store: nothing is trimmed.
func (n *node) keepHouse(ctx context.Context) error {
	if err := n.freeJournals(ctx); err != nil || n.store == nil {
		return err
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
