package bus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
)

func TestReadBounds(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 100; seq++ {
		j.add(entry(writer, seq, 10_000))
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 100)
	for _, test := range []struct {
		after                 uint64
		maxMessages, maxBytes int
		want                  int
	}{
		{0, 7, 1 << 30, 7},
		{0, 1000, 1 << 30, 100},
		{93, 10, 1 << 30, 7},
		{50, 1, 1, 1},
		{50, 100, 5_000, 1}, // one message alone is larger
		{99, 0, 0, 1},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			r := bus.NewReader(js, bus.EventStream(0), nil, discard())
			defer r.Close()
			msgs, err := r.Read(t.Context(), test.after, test.maxMessages, test.maxBytes)
			if err != nil || len(msgs) != test.want {
				t.Fatalf("%d messages (%v), want %d", len(msgs), err, test.want)
			}
			for i, m := range msgs {
				if m.Position != test.after+1+uint64(i) || m.Published.IsZero() {
					t.Errorf("message %d is at position %d, published %v", i, m.Position, m.Published)
				}
			}
		})
	}
	r := bus.NewReader(js, bus.EventStream(0), nil, discard())
	defer r.Close()
	bytes := 0
	msgs, err := r.Read(t.Context(), 0, 1000, 100_000)
	for _, m := range msgs {
		bytes += len(m.Data)
	}
	if err != nil || bytes < 50_000 || bytes > 130_000 {
		t.Errorf("asked for about 100,000 bytes, got %d in %d messages (%v)", bytes, len(msgs), err)
	}
}

func TestReadOversizedAfterSmall(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal(entry(writer, 1, 200), entry(writer, 2, 300_000), entry(writer, 3, 200), entry(writer, 4, 300_000))
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 4)
	r := bus.NewReader(js, bus.EventStream(0), nil, discard())
	defer r.Close()
	var got []schemas.Message
	for len(got) < 4 {
		msgs, err := r.Read(t.Context(), uint64(len(got)), 10, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, msgs...)
	}
	sequence(t, got, writer, j.entries)
}

func TestReadWaits(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	r := bus.NewReader(js, bus.EventStream(0), nil, discard())
	defer r.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	errStop := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(errStop) })
	if msgs, err := r.Read(ctx, 0, 10, 1000); !errors.Is(err, errStop) {
		t.Fatalf("read of an empty stream gave %d messages and %v, want %v", len(msgs), err, errStop)
	}
	writer := uuid.NewV7()
	j := newJournal()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	time.AfterFunc(50*time.Millisecond, func() { j.add(entry(writer, 1, 100)) })
	if msgs, err := r.Read(t.Context(), 0, 10, 1000); err != nil || len(msgs) != 1 {
		t.Errorf("read gave %d messages and %v, want the one that came later", len(msgs), err)
	}
}

func TestReadBehind(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	r := bus.NewReader(js, bus.EventStream(0), nil, discard())
	defer r.Close()
	if _, err := r.Read(t.Context(), 5, 10, 1000); !errors.Is(err, bus.ErrBehind) {
		t.Errorf("reading after position 5 of an empty stream gave %v, want %v", err, bus.ErrBehind)
	}
}

// Readers go on through restarts and cut connections, in order, without gap or double.
func TestReadThroughOutages(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer, Timeout: 300 * time.Millisecond})
	rd := rand.New(rand.NewPCG(1, 2))
	r := bus.NewReader(server.JetStream(), bus.EventStream(0), nil, discard())
	defer r.Close()
	var got []schemas.Message
	for seq := uint64(0); len(got) < 3000; {
		for range rd.IntN(200) {
			seq++
			j.add(entry(writer, seq, 300))
		}
		switch rd.IntN(6) {
		case 0:
			server.Cut()
		case 1:
			server.Stop()
			server.Start()
		}
		for uint64(len(got)) < seq {
			after := uint64(0)
			if len(got) > 0 {
				after = got[len(got)-1].Position
			}
			msgs, err := r.Read(t.Context(), after, 1+rd.IntN(100), 1<<20)
			if err != nil {
				t.Fatalf("read after %d: %v", after, err)
			}
			got = append(got, msgs...)
			if rd.IntN(20) == 0 {
				server.Cut()
			}
		}
	}
	sequence(t, got, writer, j.entries)
}

// A reader that is set back or ahead reads from there.
func TestReadElsewhere(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	for seq := uint64(1); seq <= 50; seq++ {
		j.add(entry(writer, seq, 100))
	}
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 50)
	r := bus.NewReader(js, bus.EventStream(0), nil, discard())
	defer r.Close()
	for _, after := range []uint64{0, 10, 5, 49, 0} {
		msgs, err := r.Read(t.Context(), after, 3, 1<<20)
		if err != nil || len(msgs) == 0 || msgs[0].Position != after+1 {
			t.Errorf("reading after %d gave %d messages (%v)", after, len(msgs), err)
		}
	}
}
