package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/chaintrail/chaintrail/audit/redact"
	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas"
)

func journalConfig(cfg config.Config, sabotage string) outbox.Config {
	d := cfg.Journal.Durability
	return outbox.Config{
		Dir: cfg.Dir("journals"), Tenant: cfg.Tenant, Gateway: cfg.Gateway.Name, Version: version,
		Durability: outbox.Durabilities{
			Request: outbox.Durability(d.Request), Outcome: outbox.Durability(d.Outcome),
			Deferred: outbox.Durability(d.Deferred), Control: outbox.Durability(d.Control),
		},
		SegmentBytes: int64(cfg.Journal.Segment), MaxBytes: int64(cfg.Journal.MaxBytes),
		OnFull: outbox.OnFull(cfg.Journal.OnFull), KeepFor: cfg.Journal.Keep, Sabotage: sabotage,
	}
}

// openJournal starts this process's writer and the publisher behind it. Its stop closes the writer,
// then waits until the bus has everything, or for the deadline: what is left is adopted later.
func (n *node) openJournal(ctx context.Context) error {
	publisher := lifecycle.Background("publisher", n.publish)
	house := lifecycle.Background("journal", func(ctx context.Context) error { return n.outbox.Run(ctx) })
	return n.group.Start(ctx, lifecycle.Part{
		Name: "journal",
		Start: func(ctx context.Context) (err error) {
			n.outbox, err = outbox.Open(ctx, journalConfig(n.cfg, n.sabotageFor("skip-journal")), n.log)
			if err != nil {
				return err
			}
			if n.recorder, err = n.policy(n.outbox); err != nil {
				return err
			}
			return errors.Join(house.Start(ctx), publisher.Start(ctx))
		},
		Stop: func(ctx context.Context) error {
			err := n.outbox.Close(ctx)
			n.drainJournal(ctx)
			_ = publisher.Stop(ctx) // what it had no time for is adopted later
			_ = house.Stop(ctx)
			return err
		},
		Failed: publisher.Failed, // a fork, or a journal that cannot be read: going on would hide it
	})
}

// policy puts what is kept of each open item in front of the journal.
func (n *node) policy(next redact.Journal) (*redact.Recorder, error) {
	policy := redact.Policy{Snapshots: n.cfg.Snapshots}
	for _, r := range n.cfg.Policy {
		policy.Rules = append(policy.Rules, redact.Rule{
			Event: r.Event, Server: r.Server, Tool: r.Tool, Phase: r.Phase, Outcome: r.Outcome, Role: r.Role,
			Keep: schemas.Keep(r.Keep), Cap: int(r.Cap),
		})
	}
	recorder, err := redact.NewRecorder(next, policy, &redact.RecorderOptions{SnapshotKey: n.keys.snapshot, Tenant: n.cfg.Tenant})
	return recorder, usage(err)
}

// publish moves the writer's journal to the bus until the writer is closed and everything is there.
func (n *node) publish(ctx context.Context) error {
	js, err := n.bus.wait(ctx)
	if err != nil {
		return nil //nolint:nilerr // no bus: everything stays in the journal
	}
	p, err := bus.NewPublisher(js, n.outbox, bus.PublisherConfig{
		Shard: shard, Tenant: n.cfg.Tenant, Writer: n.outbox.Writer(), Sabotage: n.sabotageFor("ack-early"),
	}, n.log)
	if err != nil {
		return err
	}
	if err := p.Run(ctx); err != nil {
		return err
	}
	<-ctx.Done() // the journal is finished; its part ends with the stop
	return nil
}

// drainJournal waits until the bus has all of the closed writer's events, if there is a bus.
func (n *node) drainJournal(ctx context.Context) {
	select {
	case <-n.bus.ready:
	default:
		return
	}
	s := n.outbox.Stats()
	for s.Published < s.Seq && pause(ctx) {
		s = n.outbox.Stats()
	}
}

// adoptOrphans publishes what dead writers of this data directory left, and declares what they lost.
func (n *node) adoptOrphans(ctx context.Context) error {
	if n.sabotageFor("skip-adopt") != "" {
		return nil
	}
	n.adopter = n.newAdopter()
	return n.group.Start(ctx, lifecycle.Background("adopter", func(ctx context.Context) error {
		return n.adopter.Run(ctx, n.publishOrphan)
	}))
}

// adoptNow looks once and publishes what it finds.
func (n *node) adoptNow(ctx context.Context) error {
	adopter := n.newAdopter()
	orphans, err := adopter.Adopt(ctx)
	for _, o := range orphans {
		if err == nil {
			err = n.publishOrphan(ctx, o)
		}
	}
	return errors.Join(err, adopter.Close())
}

func (n *node) newAdopter() *outbox.Adopter {
	recorderOf := func(tenant string) *outbox.Outbox {
		if tenant == n.cfg.Tenant {
			return n.outbox
		}
		return nil
	}
	return outbox.NewAdopter(outbox.AdopterConfig{Dir: n.cfg.Dir("journals"), KeepFor: n.cfg.Journal.Keep}, recorderOf, n.log)
}

func (n *node) publishOrphan(ctx context.Context, o *outbox.Orphan) error {
	js, err := n.bus.wait(ctx)
	if err != nil {
		return err
	}
	p, err := bus.NewPublisher(js, o, bus.PublisherConfig{Shard: shard, Tenant: o.Tenant(), Writer: o.Writer(), After: o.PublishedHint()}, n.log)
	if err != nil {
		return fmt.Errorf("publish the journal of %s: %w", o.Writer(), err)
	}
	return p.Run(ctx)
}
