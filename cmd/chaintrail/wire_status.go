package main

import (
	"context"
	"log/slog"
	"math"
	"uuid"

	"github.com/nats-io/nats.go"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// statusSubject is where processes are asked how far their writers are; each answers.
const statusSubject = "chaintrail.status"

// statusAnswers bounds what waits for an answer; what is beyond is not answered.
const statusAnswers = 16

// writerState is what a process knows of a writer whose journal it holds.
type writerState struct {
	Writer    uuid.UUID `json:"writer"`
	Tenant    string    `json:"tenant"`
	Gateway   string    `json:"gateway"`           // that holds the journal
	State     string    `json:"state"`             // "live", or "orphan": the writer is dead, its journal is being taken over
	Accepted  uint64    `json:"accepted"`          // events, refused ones included
	Refused   uint64    `json:"refused"`           // of them; what was asked for was refused too, or shed
	Journaled uint64    `json:"journaled"`         // number of the last event
	Published uint64    `json:"published"`         //
	Released  uint64    `json:"released,omitzero"` // known to be stored and sealed
}

// answerStatus tells whoever asks over the bus how far the writers of this process are.
func (n *node) answerStatus(ctx context.Context) error {
	return n.group.Start(ctx, lifecycle.Background("status", func(ctx context.Context) error {
		if _, err := n.bus.wait(ctx); err != nil {
			return nil // no bus: nobody asks
		}
		asked := make(chan *nats.Msg, statusAnswers)
		sub, err := n.bus.nc.ChanSubscribe(statusSubject, asked)
		if err != nil {
			n.log.WarnContext(ctx, "this process does not answer chaintrail status", slog.Any("error", err))
			<-ctx.Done()
			return nil
		}
		defer sub.Unsubscribe() //nolint:errcheck // the connection may be gone already
		for {
			select {
			case <-ctx.Done():
				return nil
			case m := <-asked:
				if err := n.answer(m); err != nil {
					n.log.WarnContext(ctx, "status not answered", slog.Any("error", err))
				}
			}
		}
	}))
}

func (n *node) answer(m *nats.Msg) error {
	text, err := jsonx.Marshal(n.writerStates())
	if err != nil {
		return err
	}
	return m.Respond(text)
}

func (n *node) writerStates() []writerState {
	s := n.outbox.Stats()
	states := []writerState{{
		Writer: n.outbox.Writer(), Tenant: n.outbox.Tenant(), Gateway: n.cfg.Gateway.Name, State: "live",
		Accepted: s.Seq + s.Refused, Refused: s.Refused, Journaled: s.Seq, Published: s.Published, Released: s.Released,
	}}
	if n.adopter == nil {
		return states
	}
	for _, o := range n.adopter.Orphans() {
		published, released := o.Progress()
		states = append(states, writerState{
			Writer: o.Writer(), Tenant: o.Tenant(), Gateway: n.cfg.Gateway.Name, State: "orphan",
			Accepted: o.Last(), Journaled: o.Last(), Published: max(published, o.PublishedHint()), Released: released,
		})
	}
	return states
}

// rungOf says how many of a writer's events lie up to a position of the event stream.
func (n *node) rungOf(ctx context.Context, w *writerState, events uint64) (uint64, error) {
	if events == math.MaxUint64 {
		return w.Published, nil
	}
	items, err := n.lastPosition(ctx, bus.OpenStream(shard))
	if err != nil {
		return 0, err
	}
	seq, err := bus.StoredSeq(ctx, n.bus.js, bus.StoredQuery{
		Shard: shard, Tenant: w.Tenant, Writer: w.Writer, Most: w.Published, Events: events, Items: items,
	})
	return max(seq, w.Released), err // of a writer whose messages were all trimmed only the journal knows
}
