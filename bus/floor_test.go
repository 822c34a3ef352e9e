package bus_test

import (
	"math"
	"testing"
	"uuid"

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
