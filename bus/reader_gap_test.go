package bus

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/chaintrail/chaintrail/bus/embedded"
)

// A message that was lost between server and reader shows as a gap in the consumer's numbers: the reader
// gives up what follows and reads again.
func TestReadNoticesLostDelivery(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	server, err := embedded.Start(t.Context(), embedded.DefaultConfig(filepath.Join(t.TempDir(), "nats")), log)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := Connect(Config{InProcess: server}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	js, err := WaitReady(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, DefaultStreamConfig()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := js.Publish(t.Context(), eventPrefix+".0.x.y.z", []byte("data")); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(js, EventStream(0), nil, log)
	defer r.Close()
	if err := r.open(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}
	r.pull.in <- &nats.Msg{Subject: "late", Reply: "$JS.ACK.s.c.1.3.3.0.0", Data: []byte("data")} // numbers 1 and 2 were lost
	msgs, err := r.Read(t.Context(), 0, 10, 1<<20)
	if err != nil || len(msgs) != 5 || msgs[0].Position != 1 {
		t.Errorf("read %d messages (%v), want all 5 from position 1", len(msgs), err)
	}
}
