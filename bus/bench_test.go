package bus_test

import (
	"strconv"
	"testing"
	"uuid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
)

func prepared(writer uuid.UUID, count, bytes int, items ...schemas.EntryItem) []schemas.Entry {
	entries := make([]schemas.Entry, count)
	for i := range entries {
		entries[i] = entry(writer, uint64(i+1), bytes, append([]schemas.EntryItem{}, items...)...)
	}
	return entries
}

func BenchmarkPublish(b *testing.B) {
	for _, bench := range []struct {
		name  string
		items []schemas.EntryItem
	}{
		{"2KB", nil},
		{"1KB+2items", []schemas.EntryItem{item(schemas.RoleBefore, fill(1000, 1)), item(schemas.RoleContext, fill(300, 2))}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			js := bustest.Start(b, nil).Shard(nil)
			writer := uuid.NewV7()
			size := 2000
			if bench.items != nil {
				size = 1000
			}
			j := newJournal(prepared(writer, b.N, size, bench.items...)...)
			b.ReportAllocs()
			b.ResetTimer()
			_, _ = publish(b, js, j, bus.PublisherConfig{Writer: writer})
			j.waitPublished(b, uint64(b.N))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// One event at a time: from the journal's Read to Published.
func BenchmarkPublishLatency(b *testing.B) {
	for _, burst := range []int{1, 2, 4, 8, 16, 64} {
		b.Run(strconv.Itoa(burst), func(b *testing.B) {
			js := bustest.Start(b, nil).Shard(nil)
			writer := uuid.NewV7()
			entries := prepared(writer, b.N*burst, 2000)
			j := newJournal()
			_, _ = publish(b, js, j, bus.PublisherConfig{Writer: writer})
			b.ResetTimer()
			for i := range b.N {
				j.add(entries[i*burst : (i+1)*burst]...)
				j.waitPublished(b, uint64((i+1)*burst))
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	js := bustest.Start(b, nil).Shard(nil)
	writer := uuid.NewV7()
	const count = 100_000
	j := newJournal(prepared(writer, count, 1500)...)
	_, _ = publish(b, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(b, count)
	b.ReportAllocs()
	b.ResetTimer()
	read := 0
	for read < b.N {
		r := bus.NewReader(js, bus.EventStream(0), nil, discard())
		for after := uint64(0); after < count && read < b.N; {
			msgs, err := r.Read(b.Context(), after, 20_000, 16<<20)
			if err != nil {
				b.Fatal(err)
			}
			after = msgs[len(msgs)-1].Position
			read += len(msgs)
		}
		r.Close()
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "msgs/s")
}

func BenchmarkOpenItems(b *testing.B) {
	js := bustest.Start(b, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal(prepared(writer, 1000, 500, item(schemas.RoleBefore, fill(1000, 1)), item(schemas.RoleContext, fill(300, 2)))...)
	_, _ = publish(b, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(b, 1000)
	msgs := readAll(b, js, bus.EventStream(0), 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if items, err := bus.OpenItems(b.Context(), js, msgs[i%1000]); err != nil || len(items) != 2 {
			b.Fatalf("%d items, %v", len(items), err)
		}
	}
}
