package verify

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// chunkEvents are compared with their projections at once.
const chunkEvents = 8192

// Events reads the table of events, or what has its form.
type Events interface {
	// Streams names every stream that any table of sealed events knows, with the last position of its events.
	Streams(ctx context.Context) (map[string]uint64, error)
	// Control returns the events of kind writer and checkpoint, in any order.
	Control(ctx context.Context) iter.Seq2[*EventRow, error]
	// Chunk returns about n events from a position on up to another, in their order, and the last position of the stretch; 0
	// when there are no more.
	Chunk(ctx context.Context, stream string, from, to uint64, n int) (events []EventRow, last uint64, err error)
}

// Projections reads the tables that show sealed events in columns: rows of a stretch of a stream, in the order of positions.
type Projections interface {
	Interceptions(ctx context.Context, stream string, first, last uint64) ([]InterceptionRow, error)
	Invocations(ctx context.Context, stream string, first, last uint64) ([]InvocationRow, error)
	Plans(ctx context.Context, stream string, first, last uint64) ([]PlanRow, error)
	// First tells at which position the row of an invocation is.
	First(ctx context.Context, ids []string) (map[string]uint64, error)
}

// Items reads the open items.
type Items interface {
	// Items returns the rows of both tables for the events of a stretch whose times are given.
	Items(ctx context.Context, stream string, first, last uint64, from, until schemas.Time) ([]ContextRow, error)
	// ItemsOf returns the rows of events whatever their time column says.
	ItemsOf(ctx context.Context, events []uuid.UUID) ([]ContextRow, error)
	// Strays returns rows of items whose event is not there, or has another time; at most n.
	Strays(ctx context.Context, n int) ([]ItemColumns, error)
	// Stored is the number of rows, and the time of publication up to which items are stored.
	Stored(ctx context.Context) (rows uint64, until schemas.Time, err error)
}

// Store is what is verified. Projections and Items may be nil: then only the sealed bytes are.
type Store struct {
	Events      Events
	Projections Projections
	Items       Items
	// Settled says that nothing is on its way into the store: what is not there is missing.
	Settled bool
	// Progress is told how many events are done; may be nil.
	Progress func(done uint64)
}

// Run shows a checker a whole store. Heads come before, with [Checker.Head] and [Checker.Anchor].
func Run(ctx context.Context, store *Store, c *Checker) (*Report, error) {
	for row, err := range store.Events.Control(ctx) {
		if err != nil {
			return nil, fmt.Errorf("read events that speak about others: %w", err)
		}
		c.Announce(row)
	}
	streams, err := store.Events.Streams(ctx)
	if err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	r := &run{store: store, checker: c, began: schemas.At(time.Now())}
	if store.Items != nil {
		if r.rows, r.until, err = store.Items.Stored(ctx); err != nil {
			return nil, fmt.Errorf("count open items: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		to := streams[name]
		if store.Settled {
			to = noLeaf // whatever lies behind the last event is foreign
		}
		if err := r.stream(ctx, name, to); err != nil {
			return nil, fmt.Errorf("verify %s: %w", name, err)
		}
	}
	if err := r.strays(ctx); err != nil {
		return nil, err
	}
	return c.End(), nil
}

type run struct {
	store   *Store
	checker *Checker
	began   schemas.Time
	done    uint64
	rows    uint64       // of open items, when the run began
	until   schemas.Time // up to which they were stored then
	taken   uint64       // rows of open items that belong to events
}

func (r *run) stream(ctx context.Context, name string, to uint64) error {
	for from := uint64(0); from <= to; {
		rows, last, err := r.store.Events.Chunk(ctx, name, from, to, chunkEvents)
		if err != nil {
			return err
		}
		events := make([]Located, 0, len(rows))
		for i := range rows {
			if event := r.checker.Event(&rows[i]); event != nil {
				events = append(events, Located{&rows[i], event})
			}
		}
		end := last
		if last == 0 {
			end = to
		}
		if err := r.projections(ctx, name, from, end, events); err != nil {
			return err
		}
		if err := r.items(ctx, name, from, end, events); err != nil {
			return err
		}
		r.done += uint64(len(rows))
		if r.store.Progress != nil {
			r.store.Progress(r.done)
		}
		if last == 0 || last == noLeaf {
			return nil
		}
		from = last + 1
	}
	return nil
}

func (r *run) projections(ctx context.Context, name string, first, last uint64, events []Located) error {
	p := r.store.Projections
	if p == nil {
		return nil
	}
	interceptions, err := settle(ctx, r, events, wantInterceptions, func() ([]InterceptionRow, error) {
		return p.Interceptions(ctx, name, first, last)
	})
	if err != nil {
		return err
	}
	r.checker.Interceptions(events, interceptions)
	plans, err := settle(ctx, r, events, wantPlans, func() ([]PlanRow, error) { return p.Plans(ctx, name, first, last) })
	if err != nil {
		return err
	}
	r.checker.Plans(events, plans)
	rows, err := settle(ctx, r, events, wantInvocations, func() ([]InvocationRow, error) {
		return p.Invocations(ctx, name, first, last)
	})
	if err != nil {
		return err
	}
	deferred := r.checker.Invocations(events, rows)
	if len(deferred) == 0 {
		return nil
	}
	ids := make([]string, len(deferred))
	for i := range deferred {
		ids[i] = deferred[i].ID
	}
	places, err := p.First(ctx, ids)
	if err != nil {
		return err
	}
	r.checker.Repeated(deferred, places)
	return nil
}

// How long a store that is written to is given to have the rows of events that it has: it stores one table after the other.
const (
	settleEvery = 250 * time.Millisecond
	settleTries = 20
	settleYoung = schemas.Time(60e6)
)

// settle reads rows of young events again while there are too few of them.
func settle[T any](ctx context.Context, r *run, events []Located, want func([]T, Located) []T, read func() ([]T, error)) ([]T, error) {
	rows, err := read()
	if err != nil || r.store.Settled || len(events) == 0 || events[len(events)-1].Row.Published < r.began-settleYoung {
		return rows, err
	}
	var expected []T
	for _, e := range events {
		expected = want(expected, e)
	}
	for try := 0; err == nil && len(rows) < len(expected) && try < settleTries; try++ {
		timer := time.NewTimer(settleEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		rows, err = read()
	}
	return rows, err
}

func (r *run) items(ctx context.Context, name string, first, last uint64, events []Located) error {
	if r.store.Items == nil || len(events) == 0 {
		return nil
	}
	from, until := events[0].Event.Time, events[0].Event.Time
	for _, e := range events {
		from, until = min(from, e.Event.Time), max(until, e.Event.Time)
	}
	rows, err := r.store.Items.Items(ctx, name, first, last, from, until)
	if err != nil {
		return err
	}
	if lost := without(events, rows); len(lost) > 0 {
		more, err := r.store.Items.ItemsOf(ctx, lost)
		if err != nil {
			return err
		}
		rows = merge(rows, more)
	}
	r.taken += r.checker.Items(events, rows, r.why)
	return nil
}

// why tells why an item is not there.
func (r *run) why(e Located, _ *schemas.OpenRef) Absence {
	if !r.store.Settled && e.Row.Published > r.until {
		return AbsentPending
	}
	return AbsentMissing
}

// without lists events that have fewer items than they name.
func without(events []Located, rows []ContextRow) []uuid.UUID {
	have := map[uuid.UUID]int{}
	for i := range rows {
		if rows[i].Part == 0 {
			have[rows[i].Event]++
		}
	}
	var lost []uuid.UUID
	for _, e := range events {
		if have[e.Event.ID] < len(e.Event.Open) {
			lost = append(lost, e.Event.ID)
		}
	}
	return lost
}

// merge adds rows of the same events, each of them once.
func merge(rows, more []ContextRow) []ContextRow {
	again := map[uuid.UUID]bool{}
	for i := range more {
		again[more[i].Event] = true
	}
	out := more
	for i := range rows {
		if !again[rows[i].Event] {
			out = append(out, rows[i])
		}
	}
	return out
}

// strays looks for open items of no event, when there are more rows than events named.
func (r *run) strays(ctx context.Context) error {
	if r.store.Items == nil || r.taken >= r.rows {
		return nil
	}
	rows, err := r.store.Items.Strays(ctx, maxFindings)
	if err != nil {
		return fmt.Errorf("look for open items of no event: %w", err)
	}
	for i := range rows {
		if row := &rows[i]; r.store.Settled || row.Published <= r.until {
			r.checker.Stray(row)
		}
	}
	return nil
}
