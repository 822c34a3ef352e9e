package bus_test

import (
	"context"
	"testing"
	"time"
	"uuid"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
)

// Three servers, three replicas; the leader of the events is stopped again and again, and so is that of the items:
// no event and no item is doubled or missing, readers go on, and cursors count.
func TestClusterLosesLeaders(t *testing.T) {
	t.Parallel()
	cluster := bustest.StartCluster(t)
	js := cluster.JetStream()
	cfg := bus.DefaultStreamConfig()
	cfg.Replicas, cfg.MaxBytes, cfg.OpenMaxBytes = 3, 256<<20, 256<<20
	ensure(t, js, cfg)
	writer := uuid.NewV7()
	j := newJournal()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer, Timeout: time.Second})
	r := bus.NewReader(cluster.JetStream(), bus.EventStream(0), nil, discard())
	defer r.Close()
	cursors := bus.NewCursors(cluster.JetStream())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	const perRound = 300
	var got []schemas.Message
	stopped := 0
	for round, stream := range []string{bus.EventStream(0), bus.OpenStream(0), "KV_" + bus.CursorBucket} {
		for i := range perRound {
			seq := uint64(round*perRound + i + 1)
			j.add(entry(writer, seq, 300, item(schemas.RoleBefore, fill(200, byte(seq)))))
		}
		leader := -1
		eventually(t, "the stream has a leader", func() bool { leader = cluster.Leader(stream); return leader >= 0 })
		cluster.Stop(leader)
		stopped++
		for len(got) < (round+1)*perRound {
			after := uint64(0)
			if len(got) > 0 {
				after = got[len(got)-1].Position
			}
			msgs, err := r.Read(ctx, after, 100, 1<<20)
			if err != nil {
				t.Fatalf("read after %d: %v", after, err)
			}
			for _, m := range msgs {
				wantItems(ctx, t, js, m, 1)
			}
			got = append(got, msgs...)
		}
		if err := addOneAt(ctx, cursors); err != nil {
			t.Fatalf("cursor: %v", err)
		}
		cluster.Start(leader)
	}
	j.waitPublished(t, uint64(len(got)))
	sequence(t, got, writer, j.entries)
	if value, _, err := cursors.Get(ctx, "count"); err != nil || len(value) != stopped {
		t.Errorf("the cursor counts %d rounds (%v), want %d", len(value), err, stopped)
	}
}

// ensure makes the streams; a cluster that has just been started refuses for a moment.
func ensure(t *testing.T, js jetstream.JetStream, cfg bus.StreamConfig) {
	t.Helper()
	var err error
	eventually(t, "the cluster takes streams", func() bool {
		err = bus.Ensure(t.Context(), js, cfg)
		return err == nil
	})
}

func wantItems(ctx context.Context, t *testing.T, js jetstream.JetStream, m schemas.Message, count int) {
	t.Helper()
	for {
		items, err := bus.OpenItems(ctx, js, m)
		switch {
		case err == nil && len(items) == count:
			return
		case err == nil:
			t.Fatalf("event at position %d has %d items, want %d", m.Position, len(items), count)
		case ctx.Err() != nil:
			t.Fatalf("items of the event at position %d: %v", m.Position, err)
		}
	}
}

func addOneAt(ctx context.Context, c *bus.Cursors) error {
	value, revision, err := c.Get(ctx, "count")
	if err != nil {
		return err
	}
	_, err = c.Put(ctx, "count", append(value, '.'), revision)
	return err
}
