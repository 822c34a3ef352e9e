package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// cmdForge publishes an event of somebody else's under the id of the writer that wrote last: forge ROLE.
func cmdForge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: forge ROLE")
	}
	info := readRuntime(ts, args[0])
	nc, err := nats.Connect(info.BusURL, nats.Token(info.BusToken))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	until(ts, "the forged event is in the stream", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := forge(ctx, js)
		var refused *jetstream.APIError
		if err != nil && !errors.As(err, &refused) { // the writer was faster
			ts.Fatalf("forge: %v", err)
		}
		return err == nil
	})
}

func forge(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, bus.EventStream(0))
	if err != nil {
		return err
	}
	last, err := stream.GetMsg(ctx, stream.CachedInfo().State.LastSeq)
	if err != nil {
		return err
	}
	seq, err := bus.Seq(last.Header)
	if err != nil {
		return err
	}
	m := nats.NewMsg(last.Subject)
	m.Data = []byte(`{"forged":true}`)
	m.Header.Set(bus.HeaderSeq, strconv.FormatUint(seq+1, 10))
	m.Header.Set(bus.HeaderHash, seal.Event(m.Data).String())
	_, err = js.PublishMsg(ctx, m, jetstream.WithExpectLastSequence(last.Sequence))
	return err
}
