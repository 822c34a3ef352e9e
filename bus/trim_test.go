package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"
	"uuid"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
)

func TestTrim(t *testing.T) {
	t.Parallel()
	errDown := errors.New("down")
	for _, test := range []struct {
		name      string
		cfg       bus.TrimConfig
		floor     uint64
		floorErr  error
		recordErr error
		first     uint64
		last      uint64
		err       error
	}{
		{name: "up to the slowest reader", floor: 40, first: 1, last: 40},
		{name: "a tail stays", cfg: bus.TrimConfig{Keep: 30}, floor: 100, first: 1, last: 70},
		{name: "young messages stay", cfg: bus.TrimConfig{KeepFor: time.Hour}, floor: 100},
		{name: "old messages go", cfg: bus.TrimConfig{KeepFor: time.Nanosecond}, floor: 100, first: 1, last: 100},
		{name: "nothing read yet"},
		{name: "a reader ahead of the stream", floor: 1000, first: 1, last: 100},
		{name: "a position that is not known", floor: 100, floorErr: errDown, err: errDown},
		{name: "a trim that cannot be recorded", floor: 100, recordErr: errDown, err: errDown},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			js := bustest.Start(t, nil).Shard(nil)
			writer := uuid.NewV7()
			j := newJournal()
			for seq := uint64(1); seq <= 100; seq++ {
				j.add(entry(writer, seq, 200))
			}
			_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
			j.waitPublished(t, 100)
			recorded := 0
			test.cfg.Every = time.Minute
			trimmer, err := bus.NewTrimmer(js, test.cfg,
				func(context.Context, string) (uint64, error) { return test.floor, test.floorErr },
				func(_ context.Context, stream string, first, last uint64) error {
					recorded++
					if stream != bus.EventStream(0) || first != test.first && test.err == nil || last != test.last && test.err == nil {
						t.Errorf("recorded %d-%d of %s", first, last, stream)
					}
					return test.recordErr
				}, discard())
			if err != nil {
				t.Fatal(err)
			}
			first, last, err := trimmer.Trim(t.Context(), bus.EventStream(0))
			if first != test.first || last != test.last || !errors.Is(err, test.err) {
				t.Errorf("trimmed %d-%d (%v), want %d-%d (%v)", first, last, err, test.first, test.last, test.err)
			}
			if want := int(100 - test.last); streamCount(t, js, bus.EventStream(0)) != want {
				t.Errorf("the stream holds %d messages, want %d", streamCount(t, js, bus.EventStream(0)), want)
			}
			if test.last > 0 && recorded != 1 {
				t.Errorf("the trim was recorded %d times", recorded)
			}
		})
	}
}

func TestTrimmerRuns(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal(entry(writer, 1, 100), entry(writer, 2, 100))
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	j.waitPublished(t, 2)
	trimmer, err := bus.NewTrimmer(js, bus.TrimConfig{Every: 5 * time.Millisecond, Streams: []string{bus.OpenStream(0), bus.EventStream(0)}},
		func(context.Context, string) (uint64, error) { return 2, nil },
		func(context.Context, string, uint64, uint64) error { return nil }, discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- trimmer.Run(ctx) }()
	eventually(t, "both events are trimmed", func() bool { return trimmer.Trimmed() == 2 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the trimmer ended with %v", err)
	}
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	cfg := bus.DefaultStreamConfig()
	cfg.MaxBytes = 16 << 20
	for range 2 { // again, and with other limits
		if err := bus.Ensure(t.Context(), js, cfg); err != nil {
			t.Fatalf("make streams again: %v", err)
		}
	}
	for _, name := range []string{bus.EventStream(0), bus.OpenStream(0)} {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		if c.Retention != jetstream.LimitsPolicy || c.Discard != jetstream.DiscardNew || c.MaxAge != 0 || !c.AllowAtomicPublish ||
			c.Storage != jetstream.FileStorage || c.MaxBytes <= 0 || c.DenyDelete || c.DenyPurge {
			t.Errorf("stream %s is made as %+v", name, c)
		}
	}
	for name, broken := range map[string]func(*bus.StreamConfig){
		"max_bytes": func(c *bus.StreamConfig) { c.MaxBytes = -1 }, "max_message": func(c *bus.StreamConfig) { c.MaxMessage = 1000 },
		"replicas": func(c *bus.StreamConfig) { c.Replicas = 0 }, "shard": func(c *bus.StreamConfig) { c.Shard = -1 },
	} {
		bad := bus.DefaultStreamConfig()
		broken(&bad)
		if err := bus.Ensure(t.Context(), js, bad); err == nil {
			t.Errorf("a broken %s is taken", name)
		}
	}
}
