package bus_test

import (
	"errors"
	"math"
	"testing"
	"uuid"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
)

// What deferred work still needs is not trimmed, neither events nor their items.
func TestFloors(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 10; seq++ { // two items each, none for every other event
		e := entry(writer, seq, 200)
		if seq%2 == 1 {
			e = entry(writer, seq, 200, item(schemas.RoleBefore, nil), item(schemas.RoleContext, nil))
		}
		if seq > 8 {
			e.Kind = schemas.KindPlan // not for deferred work
		}
		j.add(e)
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 10)
	check := func(when string, event, open uint64) {
		t.Helper()
		got, err := bus.WorkFloor(t.Context(), js, 0)
		if err != nil || got != event {
			t.Errorf("%s the floor of events is %d (%v), want %d", when, got, err, event)
		}
		gotOpen, err := bus.OpenFloor(t.Context(), js, 0, got)
		if err != nil || gotOpen != open {
			t.Errorf("%s the floor of items is %d (%v), want %d", when, gotOpen, err, open)
		}
	}
	check("without a consumer", math.MaxUint64, 10)
	w := newWork(t, server, bus.WorkConfig{Name: "sink"})
	jobs := []bus.Job{next(t, w), next(t, w)}
	check("before any acknowledgement", 0, 0)
	for _, job := range jobs {
		if err := job.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("after two", 2, 2)
	for range 6 {
		if err := next(t, w).Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("after all that is for it", 10, 10)
}

// A gateway without a store learns from the positions of others which of its own events are stored.
func TestStoredSeq(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	mine, other := uuid.NewV7(), uuid.NewV7()
	journals := map[uuid.UUID]*journal{mine: newJournal(), other: newJournal()}
	for writer, j := range journals {
		_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	}
	for _, part := range []struct {
		writer      uuid.UUID
		first, last uint64
	}{{mine, 1, 3}, {other, 1, 3}, {mine, 4, 6}} { // positions 1-3 and 7-9 are mine, one item each
		for seq := part.first; seq <= part.last; seq++ {
			journals[part.writer].add(entry(part.writer, seq, 100, item(schemas.RoleBefore, nil)))
		}
		journals[part.writer].waitPublished(t, part.last)
	}
	for _, c := range []struct{ events, items, most, seq uint64 }{
		{0, 0, 6, 0},
		{9, 0, 6, 0}, // events without their items are not stored
		{0, 9, 6, 0},
		{2, 9, 6, 2},
		{6, 6, 6, 3},
		{9, 8, 6, 5},
		{9, 9, 6, 6},
		{9, 9, 4, 4}, // what was published later does not count
	} {
		q := bus.StoredQuery{Writer: mine, Most: c.most, Events: c.events, Items: c.items}
		if seq, err := bus.StoredSeq(t.Context(), js, q); err != nil || seq != c.seq {
			t.Errorf("%+v: stored up to %d (%v), want %d", q, seq, err, c.seq)
		}
	}
}

// A stream can lose acknowledged messages while the publisher, which is away, still has them as published.
func TestStoredSeqAfterStreamLostItsEnd(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, stop := publish(t, js, j, bus.PublisherConfig{Writer: writer})
	for seq := uint64(1); seq <= 6; seq++ {
		j.add(entry(writer, seq, 100, item(schemas.RoleBefore, nil)))
	}
	j.waitPublished(t, 6)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	lose := func(from uint64) {
		t.Helper()
		for _, name := range []string{bus.EventStream(0), bus.OpenStream(0)} {
			s, err := js.Stream(t.Context(), name)
			for position := from; err == nil && position <= 6; position++ {
				if err = s.DeleteMsg(t.Context(), position); errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
					err = nil // lost before
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(when string, q bus.StoredQuery, want uint64) {
		t.Helper()
		q.Writer, q.Most = writer, 6
		if seq, err := bus.StoredSeq(t.Context(), js, q); err != nil || seq != want {
			t.Errorf("%s: stored up to %d (%v), want %d", when, seq, err, want)
		}
	}
	lose(5)
	check("two lost that nobody had stored", bus.StoredQuery{Events: 4, Items: 4}, 4)
	check("two lost, one behind them not stored", bus.StoredQuery{Events: 3, Items: 4}, 3)
	check("rows were read back", bus.StoredQuery{Events: math.MaxUint64, Items: 4}, 6)
	p, _ := publish(t, js, j, bus.PublisherConfig{Writer: writer})
	eventually(t, "the stream has them again", func() bool { return p.Stats().Events == 2 && p.Stats().Acked == 6 })
	check("published again, not stored again", bus.StoredQuery{Events: 4, Items: 4}, 4)
	check("stored again", bus.StoredQuery{Events: 8, Items: 8}, 6)
	lose(1)
	for position := uint64(7); position <= 8; position++ {
		s, err := js.Stream(t.Context(), bus.EventStream(0))
		if err == nil {
			err = s.DeleteMsg(t.Context(), position)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check("nothing left", bus.StoredQuery{Events: 8, Items: 8}, 0)
}
