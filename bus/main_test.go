package bus_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// journal is a journal in memory. It keeps everything, as one that was not released yet.
type journal struct {
	mu        sync.Mutex // covers the fields below
	entries   []schemas.Entry
	closed    bool
	published uint64
	changed   chan struct{} // closed and made anew at each change
}

func newJournal(entries ...schemas.Entry) *journal {
	return &journal{entries: entries, changed: make(chan struct{})}
}

func (j *journal) update(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) add(entries ...schemas.Entry) {
	j.update(func() { j.entries = append(j.entries, entries...) })
}

func (j *journal) close() { j.update(func() { j.closed = true }) }

func (j *journal) Published(seq uint64) { j.update(func() { j.published = seq }) }

func (j *journal) Read(ctx context.Context, after uint64, most, maxBytes int) ([]schemas.Entry, error) {
	for {
		j.mu.Lock()
		changed := j.changed
		if after < uint64(len(j.entries)) {
			out := j.entries[after:min(uint64(len(j.entries)), after+uint64(most))]
			for i, bytes := 0, 0; i < len(out); i++ {
				bytes += len(out[i].Sealed)
				for _, item := range out[i].Items {
					bytes += len(item.Data)
				}
				if bytes >= maxBytes {
					out = out[:i+1]
				}
			}
			j.mu.Unlock()
			return out, nil
		}
		closed := j.closed
		j.mu.Unlock()
		if closed {
			return nil, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// waitPublished waits until everything up to seq was reported as stored.
func (j *journal) waitPublished(tb testing.TB, seq uint64) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 60*time.Second)
	defer cancel()
	for {
		j.mu.Lock()
		published, changed := j.published, j.changed
		j.mu.Unlock()
		if published >= seq {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			tb.Fatalf("published up to %d, want %d", published, seq)
		}
	}
}

// entry makes an event of about bytes sealed bytes.
func entry(writer uuid.UUID, seq uint64, bytes int, items ...schemas.EntryItem) schemas.Entry {
	id := uuid.NewV7()
	head := fmt.Sprintf(`{"id":%q,"seq":%d,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7","pad":"`, id, seq)
	sealed := append([]byte(head), make([]byte, max(0, bytes-len(head)-2))...)
	for i := len(head); i < len(sealed); i++ {
		sealed[i] = 'a' + byte((uint64(i)*7+seq)%26)
	}
	sealed = append(sealed, `"}`...)
	for i := range items {
		items[i].Header.Event, items[i].Header.Writer, items[i].Header.Seq = id, writer, seq
		items[i].Header.Tenant, items[i].Header.Kind = "default", schemas.KindRequest
		items[i].Header.Salt = seal.NewSalt()
	}
	return schemas.Entry{
		Seq: seq, Hash: seal.Event(sealed), Kind: schemas.KindRequest, Tenant: "default", Sealed: sealed, Items: items,
	}
}

func item(role schemas.Role, data []byte) schemas.EntryItem {
	return schemas.EntryItem{Header: schemas.OpenHeader{Role: role, Keep: schemas.KeepFull}, Data: data}
}

// fill makes size bytes that differ from place to place.
func fill(size int, with byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i>>9) ^ byte(i) ^ with
	}
	return b
}

// publish runs a publisher in the background; stop ends it and waits.
func publish(tb testing.TB, js jetstream.JetStream, j bus.Journal, cfg bus.PublisherConfig) (p *bus.Publisher, stop func() error) {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	cfg.MaxPause = 20 * time.Millisecond
	p, err := bus.NewPublisher(js, j, cfg, discard())
	if err != nil {
		tb.Fatalf("make the publisher: %v", err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }() // exits when ctx ends
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Errorf("publisher: %v", err)
		}
	})
	return p, stop
}

// readAll reads a stream from its beginning until it has count messages.
func readAll(tb testing.TB, js jetstream.JetStream, stream string, count int) []schemas.Message {
	tb.Helper()
	r := bus.NewReader(js, stream, nil, discard())
	defer r.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), 60*time.Second)
	defer cancel()
	var out []schemas.Message
	for after := uint64(0); len(out) < count; {
		msgs, err := r.Read(ctx, after, 1000, 8<<20)
		if err != nil {
			tb.Fatalf("read %s after %d messages, want %d: %v", stream, len(out), count, err)
		}
		out = append(out, msgs...)
		after = msgs[len(msgs)-1].Position
	}
	return out
}

// sequence checks that the messages of one writer are numbered 1, 2, 3 … without gap or double.
func sequence(tb testing.TB, msgs []schemas.Message, writer uuid.UUID, entries []schemas.Entry) {
	tb.Helper()
	next := uint64(1)
	for _, m := range msgs {
		s, err := bus.ParseSubject(m.Subject)
		if err != nil {
			tb.Fatalf("position %d: %v", m.Position, err)
		}
		if s.Writer != writer {
			continue
		}
		seq, err := bus.Seq(m.Header)
		if err != nil || seq != next {
			tb.Fatalf("position %d has number %d (%v), want %d", m.Position, seq, err, next)
		}
		if string(m.Data) != string(entries[seq-1].Sealed) {
			tb.Fatalf("event %d has other bytes than the journal", seq)
		}
		if h, err := bus.Hash(m.Header); err != nil || h != entries[seq-1].Hash {
			tb.Fatalf("event %d has hash %v (%v), want %v", seq, h, err, entries[seq-1].Hash)
		}
		next++
	}
	if next != uint64(len(entries))+1 {
		tb.Fatalf("the stream holds events up to %d, want %d", next-1, len(entries))
	}
}

func streamCount(tb testing.TB, js jetstream.JetStream, name string) int {
	tb.Helper()
	s, err := js.Stream(tb.Context(), name)
	if err != nil {
		tb.Fatalf("stream %s: %v", name, err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// eventually waits until something holds that no channel tells of.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			tb.Fatalf("it did not happen that %s", what)
		}
	}
}
