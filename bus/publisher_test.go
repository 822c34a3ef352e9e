package bus_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"uuid"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/bus/embedded"
	"github.com/chaintrail/chaintrail/schemas"
)

func TestPublishKeepsOrder(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	p, _ := publish(t, js, j, bus.PublisherConfig{Writer: writer})
	const count = 3000
	for seq := uint64(1); seq <= count; seq++ {
		j.add(entry(writer, seq, 500, item(schemas.RoleBefore, fill(200, byte(seq))), item(schemas.RoleContext, []byte("{}"))))
	}
	j.waitPublished(t, count)
	msgs := readAll(t, js, bus.EventStream(0), count)
	sequence(t, msgs, writer, j.entries)
	if got := streamCount(t, js, bus.OpenStream(0)); got != 2*count {
		t.Errorf("the open stream holds %d messages, want %d", got, 2*count)
	}
	if got, want := nats.Header(msgs[7].Header).Get("traceparent"), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; got != want {
		t.Errorf("traceparent is %q, want %q", got, want)
	}
	if stats := p.Stats(); stats.Events != count || stats.Items != 2*count || stats.Acked != count {
		t.Errorf("stats are %+v", stats)
	}
}

func TestPublishersOfOneShardDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	const writers, count = 8, 300
	journals := make([]*journal, writers)
	ids := make([]uuid.UUID, writers)
	for i := range writers {
		ids[i], journals[i] = uuid.NewV7(), newJournal()
		_, _ = publish(t, server.JetStream(), journals[i], bus.PublisherConfig{Writer: ids[i], Tenant: string(rune('a' + i))})
	}
	for seq := uint64(1); seq <= count; seq++ {
		for i := range writers {
			journals[i].add(entry(ids[i], seq, 300, item(schemas.RoleBefore, fill(100, byte(i)))))
		}
	}
	for i := range writers {
		journals[i].waitPublished(t, count)
	}
	msgs := readAll(t, js, bus.EventStream(0), writers*count)
	for i := range writers {
		sequence(t, msgs, ids[i], journals[i].entries)
	}
	for _, m := range msgs {
		items, err := bus.OpenItems(t.Context(), js, m)
		if err != nil || len(items) != 1 {
			t.Fatalf("event at position %d has %d items (%v), want its one", m.Position, len(items), err)
		}
	}
}

// A replay, however late, is refused: nothing is stored twice, and the publisher finds its place.
func TestReplayIsRefused(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 50; seq++ {
		j.add(entry(writer, seq, 300, item(schemas.RoleBefore, fill(100, byte(seq)))))
	}
	first, _ := publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 50)
	// A second publisher of the same journal takes the lead; the first one does not know.
	second, stopSecond := publish(t, server.JetStream(), j, bus.PublisherConfig{Writer: writer})
	for seq := uint64(51); seq <= 400; seq++ {
		j.add(entry(writer, seq, 300, item(schemas.RoleBefore, fill(100, byte(seq)))))
	}
	j.waitPublished(t, 400)
	if err := stopSecond(); err != nil {
		t.Errorf("second publisher: %v", err)
	}
	for seq := uint64(401); seq <= 450; seq++ {
		j.add(entry(writer, seq, 300))
	}
	j.waitPublished(t, 450)
	sequence(t, readAll(t, js, bus.EventStream(0), 450), writer, j.entries)
	if got := streamCount(t, js, bus.OpenStream(0)); got != 400 {
		t.Errorf("the open stream holds %d items, want 400", got)
	}
	// One that is stopped before it reads its answer does not count what it stored; none counts what the other did.
	a, b := first.Stats(), second.Stats()
	if a.Events+b.Events > 450 || a.Events < 50 {
		t.Errorf("the publishers count %d and %d events, want 450 together at most, 50 at least for the first", a.Events, b.Events)
	}
}

func TestForkStopsThePublisher(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	mine := newJournal(entry(writer, 1, 300))
	p, err := bus.NewPublisher(js, mine, bus.PublisherConfig{Writer: writer}, discard())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(t.Context()) }()
	mine.waitPublished(t, 1)
	// Somebody else writes number 2 under this writer's id.
	forged := entry(writer, 2, 300)
	m := nats.NewMsg(bus.Subject{Writer: writer, Kind: schemas.KindRequest}.String())
	m.Data = forged.Sealed
	m.Header.Set(bus.HeaderSeq, "2")
	m.Header.Set(bus.HeaderHash, forged.Hash.String())
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	mine.add(entry(writer, 2, 300))
	if err := <-done; !errors.Is(err, bus.ErrFork) {
		t.Errorf("the publisher ended with %v, want %v", err, bus.ErrFork)
	}
}

const outageSeeds = 6

// Connections are cut and servers restarted at any moment, publishers stopped and replaced: no event and
// no item is doubled or missing, and each event still finds its items.
func TestPublishThroughOutages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(outageSeeds) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			outages(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func outages(t *testing.T, r *rand.Rand) {
	t.Helper()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	cfg := bus.PublisherConfig{Writer: writer, MaxBatch: 1 + r.IntN(40), Timeout: 300 * time.Millisecond}
	_, stop := publish(t, js, j, cfg)
	seq := uint64(0)
	for range 40 {
		for range r.IntN(60) {
			seq++
			items := []schemas.EntryItem{item(schemas.RoleBefore, fill(r.IntN(1000), byte(seq)))}
			if r.IntN(10) == 0 {
				items = append(items, item(schemas.RoleAfter, fill(bus.PartBytes+r.IntN(bus.PartBytes), byte(seq))))
			}
			j.add(entry(writer, seq, 200+r.IntN(600), items[:r.IntN(len(items)+1)]...))
		}
		switch r.IntN(4) {
		case 0:
			server.Cut()
		case 1:
			server.Stop()
			server.Start()
		case 2:
			if err := stop(); err != nil {
				t.Fatalf("publisher: %v", err)
			}
			_, stop = publish(t, js, j, cfg)
		case 3:
			if err := stop(); err != nil {
				t.Fatalf("publisher: %v", err)
			}
			server.Cut()
			_, stop = publish(t, js, j, cfg)
		}
	}
	j.close()
	j.waitPublished(t, seq)
	if err := stop(); err != nil {
		t.Fatalf("publisher: %v", err)
	}
	msgs := readAll(t, js, bus.EventStream(0), int(seq))
	sequence(t, msgs, writer, j.entries)
	want := 0
	for i, m := range msgs {
		items, err := bus.OpenItems(t.Context(), js, m)
		if err != nil {
			t.Fatalf("items of event %d: %v", i+1, err)
		}
		if len(items) != len(j.entries[i].Items) {
			t.Fatalf("event %d has %d items, want %d", i+1, len(items), len(j.entries[i].Items))
		}
		for k, got := range items {
			if got.Header != j.entries[i].Items[k].Header || !slices.Equal(got.Data, j.entries[i].Items[k].Data) {
				t.Fatalf("item %d of event %d is not what was journaled", k, i+1)
			}
			want += max(1, (len(got.Data)+bus.PartBytes-1)/bus.PartBytes)
		}
	}
	if got := streamCount(t, js, bus.OpenStream(0)); got != want {
		t.Errorf("the open stream holds %d messages, want %d", got, want)
	}
}

// The server stores a batch, but its answer is lost; the publisher must notice that it was stored.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	cut := &cutter{provider: server}
	nc, err := bus.Connect(bus.Config{InProcess: cut, ReconnectWait: 5 * time.Millisecond}, discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	lossy, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	writer := uuid.NewV7()
	j := newJournal()
	// It must not wait for an answer that cannot come: the timeout is longer than the test's patience.
	p, _ := publish(t, lossy, j, bus.PublisherConfig{Writer: writer, Timeout: 2 * time.Minute})
	for seq := uint64(1); seq <= 200; {
		if seq%20 == 1 {
			cut.cutOn(`{"stream":"CHAINTRAIL_`, 2) // of the open items, or of the events
		}
		for range 5 {
			j.add(entry(writer, seq, 300, item(schemas.RoleBefore, fill(50, byte(seq)))))
			seq++
		}
		j.waitPublished(t, seq-1)
	}
	sequence(t, readAll(t, js, bus.EventStream(0), 200), writer, j.entries)
	if got := streamCount(t, js, bus.OpenStream(0)); got != 200 {
		t.Errorf("the open stream holds %d items, want 200", got)
	}
	if cut.count() == 0 || p.Stats().Resumes < 2 {
		t.Errorf("%d answers were lost and the publisher asked %d times: nothing was tested", cut.count(), p.Stats().Resumes)
	}
}

// A full stream refuses; the publisher waits and goes on after a trim.
func TestFullStream(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(func(c *bus.StreamConfig) { c.MaxBytes = 8 << 20 })
	writer := uuid.NewV7()
	j := newJournal()
	const count = 900 // of 20 KB: more than twice what fits
	for seq := uint64(1); seq <= count; seq++ {
		j.add(entry(writer, seq, 20_000))
	}
	p, _ := publish(t, js, j, bus.PublisherConfig{Writer: writer, MaxBytes: 1 << 20})
	eventually(t, "the stream is full", func() bool { return p.Stats().Retries > 2 })
	reader := bus.NewReader(js, bus.EventStream(0), nil, discard())
	defer reader.Close()
	done := uint64(0)
	trimmer, err := bus.NewTrimmer(js, bus.TrimConfig{Every: time.Second},
		func(context.Context, string) (uint64, error) { return done, nil },
		func(context.Context, string, uint64, uint64) error { return nil }, discard())
	if err != nil {
		t.Fatal(err)
	}
	var got []schemas.Message
	for len(got) < count {
		msgs, err := reader.Read(t.Context(), done, 50, 4<<20)
		if err != nil {
			t.Fatalf("read after %d: %v", done, err)
		}
		got = append(got, msgs...)
		done = msgs[len(msgs)-1].Position
		if _, _, err := trimmer.Trim(t.Context(), bus.EventStream(0)); err != nil {
			t.Fatalf("trim: %v", err)
		}
	}
	sequence(t, got, writer, j.entries)
}

// After a trim of everything the writer's last message is gone; it goes on where it was.
func TestPublishAfterTrim(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, stop := publish(t, js, j, bus.PublisherConfig{Writer: writer})
	add := func(from, to uint64) {
		for seq := from; seq <= to; seq++ {
			j.add(entry(writer, seq, 300, item(schemas.RoleBefore, fill(50, byte(seq)))))
		}
		j.waitPublished(t, to)
	}
	purge := func() {
		for _, name := range []string{bus.EventStream(0), bus.OpenStream(0)} {
			s, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(1, 20)
	purge()
	add(21, 30)
	if got := streamCount(t, js, bus.EventStream(0)); got != 10 {
		t.Errorf("after the first trim the stream holds %d events, want 10", got)
	}
	purge()
	_ = stop()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer, After: 30}) // the journal's hint
	add(31, 40)
	if got := streamCount(t, js, bus.EventStream(0)); got != 10 {
		t.Errorf("after the second trim the stream holds %d events, want 10", got)
	}
	if got := streamCount(t, js, bus.OpenStream(0)); got != 10 {
		t.Errorf("after the second trim the open stream holds %d items, want 10", got)
	}
}

// A power cut can take acknowledged messages from the end of the stream; the journal still has them.
func TestRefillAfterStreamLostItsEnd(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	for seq := uint64(1); seq <= 30; seq++ {
		j.add(entry(writer, seq, 300, item(schemas.RoleBefore, fill(50, byte(seq)))))
	}
	j.waitPublished(t, 30)
	s, err := js.Stream(t.Context(), bus.EventStream(0))
	if err != nil {
		t.Fatal(err)
	}
	for position := uint64(21); position <= 30; position++ {
		if err := s.DeleteMsg(t.Context(), position); err != nil {
			t.Fatal(err)
		}
	}
	j.add(entry(writer, 31, 300))
	j.waitPublished(t, 31)
	msgs := readAll(t, js, bus.EventStream(0), 31)
	sequence(t, msgs, writer, j.entries)
	for _, m := range msgs[:30] {
		if items, err := bus.OpenItems(t.Context(), js, m); err != nil || len(items) != 1 {
			t.Errorf("event at position %d has %d items (%v), want 1", m.Position, len(items), err)
		}
	}
}

func TestStopWhileAway(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, stop := publish(t, js, j, bus.PublisherConfig{Writer: writer, Timeout: time.Minute})
	j.add(entry(writer, 1, 300))
	j.waitPublished(t, 1)
	server.Stop()
	j.add(entry(writer, 2, 300))
	begin := time.Now()
	if err := stop(); err != nil {
		t.Errorf("the publisher ended with %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("stopping took %v", took)
	}
	server.Start()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 2)
	sequence(t, readAll(t, js, bus.EventStream(0), 2), writer, j.entries)
}

func TestBatchBeyondTheServersLimitSaysWhy(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, func(c *embedded.Config) { c.MaxPayload = 1 << 20 }).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal(entry(writer, 1, 100), entry(writer, 2, 1<<20+1))
	p, _ := publish(t, js, j, bus.PublisherConfig{Writer: writer})
	eventually(t, "the publisher tries again", func() bool { return p.Stats().Retries >= 3 })
	if got := p.Stats().Acked; got > 1 {
		t.Errorf("an event that the server cannot take counts as stored: %d", got)
	}
}

func TestSabotageIsNoticed(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, stop := publish(t, js, j, bus.PublisherConfig{Writer: writer, MaxBatch: 2, Sabotage: "ack-early"})
	for seq := uint64(1); seq <= 200; seq++ {
		j.add(entry(writer, seq, 300))
	}
	j.waitPublished(t, 200)
	_ = stop()
	if got := streamCount(t, js, bus.EventStream(0)); got >= 200 {
		t.Errorf("the stream holds %d of 200 events: the sabotage loses nothing", got)
	}
}
