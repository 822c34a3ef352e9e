package clickhouse_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

// journal hands out entries that are all there.
type journal []schemas.Entry

func (j journal) Read(_ context.Context, after uint64, most, _ int) ([]schemas.Entry, error) {
	if after >= uint64(len(j)) {
		return nil, io.EOF
	}
	return j[after:min(after+uint64(most), uint64(len(j)))], nil
}

func (journal) Published(uint64) {}

// entries makes journal entries of a call's messages.
func entries(t *testing.T, c *sinktest.Call) (out []schemas.Entry) {
	t.Helper()
	for i, m := range c.Events {
		event := []*schemas.Event{&c.Request, &c.Outcome}[i]
		e := schemas.Entry{Seq: event.Seq, Hash: seal.Event(m.Data), Kind: event.Kind, Tenant: event.Tenant, Sealed: m.Data}
		for _, item := range c.Items {
			var h schemas.OpenHeader
			if err := jsonx.Unmarshal([]byte(item.Header["Chaintrail-Item"][0]), &h); err != nil {
				t.Fatal(err)
			}
			if h.Event == event.ID {
				e.Items = append(e.Items, schemas.EntryItem{Header: h, Data: item.Data})
			}
		}
		out = append(out, e)
	}
	return out
}

// The whole way behind the journal: real publisher, real streams, real cursors, real engine; NATS restarts on the way.
func TestFromJournalToQuery(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	log := slog.New(slog.DiscardHandler)
	conn := store(t)
	w := sinktest.NewWriter()
	var all journal
	var calls []*sinktest.Call
	for i := range 60 {
		body := `{"n":1}`
		if i == 30 {
			body = string(make([]byte, 1<<20)) // in parts
		}
		c := w.Call(t, "echo", "ann", schemas.OutcomeAllowed, body)
		calls = append(calls, c)
		all = append(all, entries(t, c)...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	publisher, err := bus.NewPublisher(js, all, bus.PublisherConfig{Tenant: w.Tenant, Writer: w.ID, MaxBatch: 20}, log)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- publisher.Run(ctx) }()
	cursors := bus.NewCursors(js)
	var letters sinktest.Letters
	var writers []*clickhouse.Writer
	for stream, content := range map[string]clickhouse.Content{bus.EventStream(0): clickhouse.ContentEvents, bus.OpenStream(0): clickhouse.ContentOpen} {
		reader := bus.NewReader(js, stream, nil, log)
		defer reader.Close()
		one, err := clickhouse.NewWriter(clickhouse.Config{
			Content: content, Source: reader, Cursors: cursors, Letters: &letters, Conn: conn, Options: &sinks.Options{Linger: -1, MaxMessages: 25, Retry: fast},
		})
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, one)
		go func() { ended <- one.Run(ctx) }()
	}
	server.Stop()
	server.Start()
	reader := query.New(conn)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for writers[0].Stats().Stored+writers[1].Stats().Stored < 120+180+1 { // the body of 1 MiB has two parts
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("stored are %+v and %+v", writers[0].Stats(), writers[1].Stats())
		}
	}
	cancel()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := count(t, conn, "SELECT uniqExact(writer, seq) FROM events"); n != 120 || n != count(t, conn, "SELECT count() FROM events") {
		t.Errorf("%d events are stored, want 120", n)
	}
	if reasons := letters.Reasons(); len(reasons) > 0 {
		t.Errorf("dead letters: %v", reasons)
	}
	got, err := reader.Show(t.Context(), calls[30].Exchange.String(), 2<<20)
	if err != nil || len(got.Phases) != 2 {
		t.Fatalf("timeline %+v, %v", got, err)
	}
	if b := got.Phases[0].Bodies[0]; len(b.Data) != 1<<20 || b.Truncated || got.Phases[0].Context.Principal != "ann" {
		t.Errorf("body has %d bytes, context is %+v", len(b.Data), got.Phases[0].Context)
	}
}
