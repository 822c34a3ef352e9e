package bus_test

import (
	"errors"
	"slices"
	"testing"
	"time"
	"uuid"

	"github.com/nats-io/nats.go"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func TestLargeItemTravelsInParts(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	big := item(schemas.RoleAfter, fill(12<<20, 3))
	big.Header.Index = 2
	j := newJournal(
		entry(writer, 1, 300, item(schemas.RoleContext, []byte(`{"principal":"é\u0000"}`)), big, item(schemas.RoleSnapshot, fill(bus.PartBytes, 1))),
		entry(writer, 2, 300, item(schemas.RoleBefore, nil)))
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer, Tenant: "Größe.*"})
	j.waitPublished(t, 2)
	for i, m := range readAll(t, js, bus.EventStream(0), 2) {
		items, err := bus.OpenItems(t.Context(), js, m)
		if err != nil || len(items) != len(j.entries[i].Items) {
			t.Fatalf("event %d has %d items (%v), want %d", i+1, len(items), err, len(j.entries[i].Items))
		}
		for k, got := range items {
			if want := j.entries[i].Items[k]; got.Header != want.Header || !slices.Equal(got.Data, want.Data) {
				t.Errorf("item %d of event %d has header %+v and %d bytes, want %+v and %d",
					k, i+1, got.Header, len(got.Data), want.Header, len(want.Data))
			}
		}
	}
	for _, m := range readAll(t, js, bus.OpenStream(0), 27) {
		if len(m.Data) > bus.PartBytes {
			t.Errorf("message at position %d has %d bytes, at most %d", m.Position, len(m.Data), bus.PartBytes)
		}
	}
}

func TestOpenItemsThatAreGone(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal(entry(writer, 1, 300,
		item(schemas.RoleBefore, fill(10, 1)), item(schemas.RoleAfter, fill(2*bus.PartBytes, 1)), item(schemas.RoleContext, fill(10, 2))))
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 1)
	event := readAll(t, js, bus.EventStream(0), 1)[0]
	if err := bus.SecureDelete(t.Context(), js, bus.OpenStream(0), 1); err != nil {
		t.Fatal(err)
	}
	if err := bus.SecureDelete(t.Context(), js, bus.OpenStream(0), 1); err != nil {
		t.Errorf("deleting again: %v", err)
	}
	items, err := bus.OpenItems(t.Context(), js, event)
	if err != nil || len(items) != 2 {
		t.Errorf("after an erasure there are %d items (%v), want 2", len(items), err)
	}
	if err := bus.SecureDelete(t.Context(), js, bus.OpenStream(0), 3); err != nil {
		t.Fatal(err)
	}
	items, err = bus.OpenItems(t.Context(), js, event)
	if !errors.Is(err, bus.ErrItems) || len(items) != 1 {
		t.Errorf("with a part missing there are %d items and %v, want 1 and %v", len(items), err, bus.ErrItems)
	}
	for _, position := range []uint64{2, 4} {
		if err := bus.SecureDelete(t.Context(), js, bus.OpenStream(0), position); err != nil {
			t.Fatal(err)
		}
	}
	if items, err = bus.OpenItems(t.Context(), js, event); err != nil || len(items) != 0 {
		t.Errorf("with everything gone there are %d items and %v", len(items), err)
	}
}

// Items of another event under this event's positions do not pass for its own; without positions the
// writer's messages are looked through.
func TestOpenItemsBelongToTheirEvent(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 5; seq++ {
		j.add(entry(writer, seq, 300, item(schemas.RoleBefore, fill(10, byte(seq)))))
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 5)
	msgs := readAll(t, js, bus.EventStream(0), 5)
	wide := msgs[2]
	wide.Header = nats.Header{bus.HeaderSeq: {"3"}, bus.HeaderOpen: {"1-5"}}
	items, err := bus.OpenItems(t.Context(), js, wide)
	if err != nil || len(items) != 1 || items[0].Header.Seq != 3 {
		t.Errorf("event 3 has %d items (%v), want only its own", len(items), err)
	}
	other := msgs[2]
	other.Header = nats.Header{bus.HeaderSeq: {"3"}, bus.HeaderOpen: {"4-4"}}
	if items, err := bus.OpenItems(t.Context(), js, other); err != nil || len(items) != 0 {
		t.Errorf("event 3 has %d items (%v) at event 4's position", len(items), err)
	}
	var id struct{ text string }
	id.text = j.entries[2].Items[0].Header.Event.String()
	lost := msgs[2]
	lost.Header = nats.Header{bus.HeaderSeq: {"3"}}
	lost.Data = []byte(`{"id":"` + id.text + `","open":[{}]}`)
	if items, err := bus.OpenItems(t.Context(), js, lost); err != nil || len(items) != 1 {
		t.Errorf("without positions event 3 has %d items (%v), want 1", len(items), err)
	}
	for _, header := range []nats.Header{
		{},
		{bus.HeaderSeq: {"x"}},
		{bus.HeaderSeq: {"3"}, bus.HeaderOpen: {"5-4"}},
		{bus.HeaderSeq: {"3"}, bus.HeaderOpen: {"0-4"}},
		{bus.HeaderSeq: {"3"}, bus.HeaderOpen: {"-"}},
	} {
		bad := msgs[2]
		bad.Header = header
		if _, err := bus.OpenItems(t.Context(), js, bad); !errors.Is(err, bus.ErrHeader) {
			t.Errorf("header %v gives %v, want %v", header, err, bus.ErrHeader)
		}
	}
}

func TestSweepDeletesTransients(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 300; seq++ {
		j.add(entry(writer, seq, 200, item(schemas.RoleBefore, fill(10, 1)), item(schemas.RoleSnapshot, fill(10, 2))))
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 300)
	if n, err := bus.NewSweeper(js, []int{0}, 0, discard()).Sweep(t.Context(), 0); err != nil || n != 0 {
		t.Errorf("swept %d fresh items (%v)", n, err)
	}
	if n, err := bus.NewSweeper(js, []int{0}, time.Nanosecond, discard()).Sweep(t.Context(), 0); err != nil || n != 300 {
		t.Errorf("swept %d items (%v), want 300", n, err)
	}
	for _, m := range readAll(t, js, bus.OpenStream(0), 300) {
		if h, err := bus.ItemHeader(m.Header); err != nil || h.Role == schemas.RoleSnapshot {
			t.Fatalf("position %d still holds a %s (%v)", m.Position, h.Role, err)
		}
	}
	// The last message is gone now: the publisher must still find its place.
	j.add(entry(writer, 301, 200, item(schemas.RoleBefore, fill(10, 1))))
	j.waitPublished(t, 301)
	if got := streamCount(t, js, bus.OpenStream(0)); got != 301 {
		t.Errorf("the open stream holds %d messages, want 301", got)
	}
}

func FuzzJoinParts(f *testing.F) {
	f.Add(0, 1, 2, 3, []byte("abc"))
	f.Add(1, 1, 2, -3, []byte("abc"))
	f.Fuzz(func(t *testing.T, a, b, c, parts int, data []byte) {
		var in []schemas.EntryItem
		for i, part := range []int{a, b, c} {
			in = append(in, schemas.EntryItem{
				Header: schemas.OpenHeader{Role: schemas.RoleBefore, Part: part, Parts: parts, Salt: seal.Salt{1}},
				Data:   data[:min(i, len(data))],
			})
		}
		got, err := bus.JoinParts(in)
		if err != nil {
			if !errors.Is(err, bus.ErrItems) {
				t.Errorf("error of another class: %v", err)
			}
			return
		}
		if got.Header.Part != 0 || got.Header.Parts != 0 || len(got.Data) > 3*len(data) {
			t.Errorf("joined to %+v of %d bytes", got.Header, len(got.Data))
		}
	})
}
