package sinktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
)

// Stored is one event as a sink keeps it.
type Stored struct {
	Position uint64
	Hash     string // 64 hex digits
}

// Place is where one test's sink stores. Open gives a new sink over it, as a new start of the process would; closing it
// releases what a dead process releases. Read returns what is stored, in the sink's order.
type Place interface {
	Open(t *testing.T) (sink sinks.Sink, release func())
	Read(t *testing.T) []Stored
}

// Suite runs the contract that every sink of an event stream keeps. place makes an empty place for a stream.
func Suite(t *testing.T, place func(t *testing.T, stream string) Place) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *bench){
		"order":            testOrder,
		"restart":          testRestart,
		"lost answer":      testLostAnswer,
		"duplicates":       testDuplicates,
		"fork":             testFork,
		"undecodable":      testUndecodable,
		"faulty source":    testFaultySource,
		"nothing to store": testNothing,
		"months":           testMonths,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := NewStream("SUITE_0")
			b := &bench{stream: stream, source: &Source{Stream: stream}, writer: NewWriter(), place: place(t, "SUITE_0")}
			b.opts = sinks.Options{Linger: -1, Retry: retry.Policy{Initial: time.Millisecond, Max: time.Millisecond, Notify: func(error, int, time.Duration) {}}}
			test(t, b)
		})
	}
}

// bench is what a test of the suite works on.
type bench struct {
	stream  *Stream
	source  *Source
	writer  *Writer
	place   Place
	letters Letters
	opts    sinks.Options
	wrap    func(sinks.Sink) sinks.Sink
}

func (b *bench) events(t *testing.T, n int) (msgs []sinks.Message) {
	t.Helper()
	for range n {
		msgs = append(msgs, b.writer.Event(t, &schemas.Event{Kind: schemas.KindAdmin, Admin: &schemas.Admin{Action: "config"}}))
	}
	return msgs
}

// run lets a new sink work until everything is stored, or until it stops by itself.
func (b *bench) run(t *testing.T) (sinks.Stats, error) {
	t.Helper()
	sink, release := b.place.Open(t)
	defer release()
	if b.wrap != nil {
		sink = b.wrap(sink)
	}
	p := sinks.NewPipeline(sinks.Parts{Source: b.source, Decode: sinks.DecodeEvent, Sink: sink, Letters: &b.letters}, &b.opts)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }() // exits when ctx ends
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.Stats().Position < b.stream.Last() {
		select {
		case err := <-done:
			return p.Stats(), err
		case <-tick.C:
		}
	}
	cancel()
	return p.Stats(), <-done
}

func (b *bench) must(t *testing.T) sinks.Stats {
	t.Helper()
	stats, err := b.run(t)
	if err != nil {
		t.Fatalf("pipeline: %v", err)
	}
	return stats
}

// holds fails the test unless the place holds the messages at these positions, in order.
func (b *bench) holds(t *testing.T, positions ...uint64) {
	t.Helper()
	all, _ := b.stream.after(0, 1<<30, 1<<30)
	hashes := map[uint64]string{}
	for _, m := range all {
		hashes[m.Position] = m.Header["Chaintrail-Hash"][0]
	}
	want := make([]Stored, 0, len(positions))
	for _, p := range positions {
		want = append(want, Stored{p, hashes[p]})
	}
	got := b.place.Read(t)
	if len(got) == 0 {
		got = []Stored{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the sink holds something else (-want +got):\n%s", diff)
	}
}

func upTo(n uint64) (out []uint64) {
	for i := uint64(1); i <= n; i++ {
		out = append(out, i)
	}
	return out
}

func testOrder(t *testing.T, b *bench) {
	t.Helper()
	b.opts.MaxMessages = 7
	b.stream.Add(b.events(t, 50)...)
	stats := b.must(t)
	b.holds(t, upTo(50)...)
	if stats.Stored != 50 || stats.Batches < 8 || stats.Position != 50 {
		t.Errorf("statistics are %+v, want 50 stored in 8 or more batches", stats)
	}
}

func testRestart(t *testing.T, b *bench) {
	t.Helper()
	for i := range 6 {
		b.opts.MaxMessages = 1 + 3*i // cuts differ from run to run
		b.stream.Add(b.events(t, 11)...)
		b.must(t)
		if i == 3 {
			b.must(t) // a run with nothing to do
		}
	}
	b.holds(t, upTo(66)...)
}

// lostAnswer stores, and then says that it failed.
type lostAnswer struct {
	sinks.Sink
	left int
}

var errLost = errors.New("the answer is lost")

func (l *lostAnswer) Store(ctx context.Context, batch sinks.Batch) error {
	if err := l.Sink.Store(ctx, batch); err != nil {
		return err
	}
	if l.left--; l.left == 0 {
		return errLost
	}
	return nil
}

func testLostAnswer(t *testing.T, b *bench) {
	t.Helper()
	b.opts.MaxMessages = 5
	b.stream.Add(b.events(t, 40)...)
	for n := 1; n <= 3; n++ {
		b.wrap = func(s sinks.Sink) sinks.Sink { return &lostAnswer{Sink: s, left: n} }
		if _, err := b.run(t); !errors.Is(err, errLost) {
			t.Fatalf("pipeline returned %v, want the sink's error", err)
		}
	}
	b.wrap = nil
	b.must(t)
	b.holds(t, upTo(40)...)
}

func testDuplicates(t *testing.T, b *bench) {
	t.Helper()
	msgs := b.events(t, 10)
	b.stream.Add(msgs[:5]...)
	b.stream.Add(msgs[4], msgs[0]) // 6, 7
	first := b.must(t)
	b.stream.Add(msgs[2])     // 8
	b.stream.Add(msgs[5:]...) // 9 to 13
	b.stream.Add(msgs[9])     // 14
	second := b.must(t)
	b.holds(t, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13)
	if first.Duplicates != 2 || second.Duplicates != 2 {
		t.Errorf("%d and %d duplicates were counted, want 2 and 2", first.Duplicates, second.Duplicates)
	}
}

func testFork(t *testing.T, b *bench) {
	t.Helper()
	other := *b.writer
	b.stream.Add(b.events(t, 3)...)
	other.Seq = 1
	other.Time += 500
	b.stream.Add(other.Event(t, &schemas.Event{Kind: schemas.KindAdmin, Admin: &schemas.Admin{Action: "policy"}}))
	b.stream.Add(b.events(t, 1)...)
	stats := b.must(t)
	b.holds(t, 1, 2, 3, 5)
	if diff := cmp.Diff(map[uint64]string{4: "fork"}, b.letters.Reasons()); diff != "" || stats.Forks != 1 {
		t.Errorf("%d forks, dead letters differ (-want +got):\n%s", stats.Forks, diff)
	}
}

func testUndecodable(t *testing.T, b *bench) {
	t.Helper()
	want := map[uint64]string{}
	for i, data := range []string{"", "null", "{", "\xff", `{"schema":"chaintrail.event/v9"}`, `[1]`, "{\"kind\":\"\xff\"}"} {
		b.stream.Add(sinks.Message{Data: []byte(data), Header: map[string][]string{"Chaintrail-Hash": {""}}})
		b.stream.Add(b.events(t, 1)...)
		want[uint64(2*i+1)] = "undecodable"
	}
	tampered := b.events(t, 1)[0]
	tampered.Data = append(tampered.Data, ' ')
	b.stream.Add(tampered)
	want[15] = "undecodable"
	stats := b.must(t)
	b.must(t)
	b.holds(t, 2, 4, 6, 8, 10, 12, 14)
	if diff := cmp.Diff(want, b.letters.Reasons()); diff != "" || stats.Undecodable != 8 {
		t.Errorf("%d undecodable, dead letters differ (-want +got):\n%s", stats.Undecodable, diff)
	}
}

func testFaultySource(t *testing.T, b *bench) {
	t.Helper()
	calls := 0
	b.source.Empty = true
	b.source.Fault = func(after uint64) error {
		if calls++; calls%3 == 0 {
			return fmt.Errorf("no connection at %d", after)
		}
		return nil
	}
	b.opts.MaxMessages = 4
	b.stream.Add(b.events(t, 30)...)
	b.must(t)
	b.holds(t, upTo(30)...)
}

// A pipeline that waits for messages ends when it is told to, without an error.
func testNothing(t *testing.T, b *bench) {
	t.Helper()
	b.must(t)
	b.holds(t)
	b.stream.Add(sinks.Message{Data: []byte("{}"), Header: map[string][]string{"Chaintrail-Hash": {""}}})
	b.must(t)
	b.holds(t)
	if stats := b.must(t); stats.Position != 1 {
		t.Errorf("position is %d after a run, want 1: what is skipped is done too", stats.Position)
	}
}

func testMonths(t *testing.T, b *bench) {
	t.Helper()
	at := time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC)
	for i, m := range b.events(t, 10) {
		m.Published = at.Add(time.Duration(i) * 12 * time.Minute)
		b.stream.Add(m)
	}
	stats := b.must(t)
	b.holds(t, upTo(10)...)
	if stats.Batches != 2 {
		t.Errorf("%d batches, want one for each month", stats.Batches)
	}
}
