package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/ledger"
)

// How long processes are waited for: the first, and each further one.
const (
	statusFirst = 2 * time.Second
	statusNext  = 250 * time.Millisecond
)

// statusReport is the ladder, by shard and by writer.
type statusReport struct {
	Time    time.Time      `json:"time"`
	Shards  []shardStatus  `json:"shards"`
	Writers []writerStatus `json:"writers"`
}

type shardStatus struct {
	Shard  int    `json:"shard"`
	Stream string `json:"stream"`
	Rungs  []rung `json:"rungs"` // published, stored, sealed, then each anchor
}

// rung is how far one step is with a stream.
type rung struct {
	Name       string  `json:"name"`
	Off        bool    `json:"off,omitzero"`  // nobody does this
	Position   uint64  `json:"position"`      // of the stream, up to which all is done
	LagEvents  uint64  `json:"lag_events"`    // messages behind it
	LagSeconds float64 `json:"lag_seconds"`   // since the first of them was published
	Size       uint64  `json:"size,omitzero"` // sealed: leaves under the newest head
	Root       string  `json:"root,omitzero"` // sealed: of the tree
}

type writerStatus struct {
	writerState
	Stored uint64 `json:"stored"`     // number up to which all events are stored
	Sealed uint64 `json:"sealed"`     // and under a signed head
	Lag    uint64 `json:"lag_events"` // journaled, and not yet stored and sealed
}

func newStatusCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far events are on the ladder: journaled, published, stored, sealed",
		Long: "Asks the bus and every process on it: accepted, journaled, published, then stored and sealed, by shard and by writer.\n" +
			"A lag in seconds is the age of the oldest event that a step has not done. docs/durability.md says what each step means.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if a.logLevel == "" {
				cfg.Log.Level = "error"
			}
			n, err := newNode(a, cfg)
			if err != nil {
				return err
			}
			if _, ok, err := n.busConfig(); err != nil || !ok {
				return errors.Join(err, withHint(errors.New("nothing runs on this data directory, so nothing moves"), "chaintrail up, or set bus.url"))
			}
			err = n.requireBus(cmd.Context())
			if err == nil {
				err = n.status(cmd.Context())
			}
			return errors.Join(err, n.group.Stop(context.WithoutCancel(cmd.Context())))
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (n *node) status(ctx context.Context) error {
	states, err := n.askWriters(ctx)
	if err != nil {
		return err
	}
	s, err := n.shardStatus(ctx)
	if err != nil {
		return err
	}
	report := statusReport{Time: time.Now().UTC(), Shards: []shardStatus{s}, Writers: []writerStatus{}}
	for _, state := range states {
		w := writerStatus{writerState: state, Stored: state.Published, Sealed: state.Published}
		for i, at := range []*uint64{&w.Stored, &w.Sealed} {
			if r := s.Rungs[i+1]; !r.Off {
				if *at, err = n.rungOf(ctx, &state, r.Position); err != nil {
					return err
				}
			}
		}
		w.Lag = w.Journaled - min(w.Stored, w.Sealed, w.Journaled)
		report.Writers = append(report.Writers, w)
	}
	return n.app.print(report, func() error { return n.app.statusTables(&report) })
}

// askWriters gathers what the processes of this bus answer.
func (n *node) askWriters(ctx context.Context) ([]writerState, error) {
	inbox := n.bus.nc.NewRespInbox()
	sub, err := n.bus.nc.SubscribeSync(inbox)
	if err == nil {
		err = n.bus.nc.PublishRequest(statusSubject, inbox, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for status: %w", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection is closed next
	var states []writerState
	for wait := statusFirst; ; wait = statusNext {
		m, err := next(ctx, sub, wait)
		switch {
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders):
			slices.SortFunc(states, func(a, b writerState) int { return strings.Compare(a.Writer.String(), b.Writer.String()) })
			return states, nil
		case err != nil:
			return nil, fmt.Errorf("ask for status: %w", err)
		}
		var more []writerState
		if err := jsonx.UnmarshalStrict(m.Data, &more); err != nil {
			return nil, fmt.Errorf("a process of another version answered: %w", err)
		}
		states = append(states, more...)
	}
}

func next(ctx context.Context, sub *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, err := sub.NextMsg(wait)
	if err == nil && m.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return m, err
}

func (n *node) shardStatus(ctx context.Context) (shardStatus, error) {
	name := bus.EventStream(shard)
	s := shardStatus{Shard: shard, Stream: name}
	stream, err := n.bus.js.Stream(ctx, name)
	if err != nil {
		return s, fmt.Errorf("look at %s: %w", name, err)
	}
	last := stream.CachedInfo().State.LastSeq
	cursors := bus.NewCursors(n.bus.js)
	stored, sealed := rung{Name: "stored", Off: n.cfg.ClickHouse.Off}, rung{Name: "sealed", Off: n.cfg.Seal.Off}
	if !stored.Off {
		if stored.Position, err = clickhouse.Stored(ctx, cursors, "", name); err != nil {
			return s, err
		}
	}
	if !sealed.Off {
		var head ledger.Head
		if sealed.Position, head, err = ledger.Sealed(ctx, cursors, name); err != nil {
			return s, err
		}
		sealed.Size, sealed.Root = head.Size, head.Root.String()
	}
	s.Rungs = []rung{{Name: "published", Position: last}, stored, sealed}
	for _, a := range n.cfg.Seal.Anchors {
		at, err := ledger.AnchoredAt(ctx, cursors, a.Name, name)
		if err != nil {
			return s, err
		}
		s.Rungs = append(s.Rungs, rung{Name: "anchored " + a.Name, Off: sealed.Off, Position: at.Position, Size: at.Size})
	}
	for i := range s.Rungs {
		if err := s.Rungs[i].lag(ctx, stream, last); err != nil {
			return s, err
		}
	}
	return s, nil
}

// lag looks for the first event that is not done: checkpoints are never sealed, and nothing waits for them.
func (r *rung) lag(ctx context.Context, stream jetstream.Stream, last uint64) error {
	const checkpoints = ".checkpoint"
	leavesOnly := r.Name == "sealed" || strings.HasPrefix(r.Name, "anchored ")
	for at := r.Position; !r.Off && at < last; {
		m, err := stream.GetMsg(ctx, at+1, jetstream.WithGetMsgSubject(">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at what is not %s: %w", r.Name, err)
		}
		if at = m.Sequence; leavesOnly && strings.HasSuffix(m.Subject, checkpoints) {
			r.Position = at
			continue
		}
		r.LagEvents, r.LagSeconds = last-m.Sequence+1, max(0, time.Since(m.Time).Seconds())
		return nil
	}
	return nil
}

func (a *app) statusTables(r *statusReport) error {
	t := newTable(a.out, "SHARD", "STREAM", "STEP", "POSITION", "LAG EVENTS", "LAG SECONDS", "LEAVES")
	for _, s := range r.Shards {
		for _, x := range s.Rungs {
			if x.Off {
				t.row(count(uint64(s.Shard)), s.Stream, x.Name, "off", "", "", "") //nolint:gosec // G115: not negative
				continue
			}
			leaves := ""
			if x.Size > 0 {
				leaves = count(x.Size)
			}
			t.row(count(uint64(s.Shard)), s.Stream, x.Name, count(x.Position), count(x.LagEvents), fmt.Sprintf("%.1f", x.LagSeconds), leaves) //nolint:gosec // G115: not negative
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	t = newTable(a.out, "WRITER", "GATEWAY", "STATE", "ACCEPTED", "JOURNALED", "PUBLISHED", "STORED", "SEALED", "LAG EVENTS")
	for i := range r.Writers {
		w := &r.Writers[i]
		t.row(w.Writer.String(), cmp.Or(w.Gateway, "-"), w.State, count(w.Accepted), count(w.Journaled), count(w.Published),
			count(w.Stored), count(w.Sealed), count(w.Lag))
	}
	return t.flush()
}
