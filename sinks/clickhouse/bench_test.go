package clickhouse_test

import (
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

// One operation is one interception: one sealed event, and for the open stream the items of one.
func BenchmarkEvents(b *testing.B) { benchmark(b, clickhouse.ContentEvents) }

func BenchmarkOpenItems(b *testing.B) { benchmark(b, clickhouse.ContentOpen) }

func benchmark(b *testing.B, content clickhouse.Content) {
	b.Helper()
	r := &rig{conn: store(b), stream: sinktest.NewStream("BENCH"), content: content, opts: sinks.Options{}}
	w := sinktest.NewWriter()
	body := `{"name":"echo","arguments":{"text":"` + strings.Repeat("lorem ipsum dolor ", 100) + `"}}`
	var bytes int64
	for i := 0; i < b.N; i += 2 {
		c := w.Call(b, "echo", "ann", schemas.OutcomeAllowed, body)
		msgs := c.Events
		if content == clickhouse.ContentOpen {
			msgs = c.Items
		}
		for _, m := range msgs {
			bytes += int64(len(m.Data))
		}
		r.stream.Add(msgs...)
	}
	b.ResetTimer()
	r.drain(b)
	b.SetBytes(bytes / int64(b.N))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "interceptions/s")
}
