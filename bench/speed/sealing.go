package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/file"
	sealer "github.com/chaintrail/chaintrail/sinks/ledger"
)

// seal seals what the event stream holds, and returns the processor time that it took in this process.
func (s *stack) seal(ctx context.Context, last uint64) (time.Duration, error) {
	keys := ledger.NewKeyring(filepath.Join(s.dir, "keys"), "")
	if _, err := keys.Make("speed.example"); err != nil {
		return 0, err
	}
	sink, err := sealer.New(sealer.Config{Dir: filepath.Join(s.dir, "ledger"), Origin: "speed.example/0", Keys: keys, Fence: bus.NewCursors(s.js), Log: s.log})
	if err != nil {
		return 0, err
	}
	before, err := s.used()
	if err != nil {
		return 0, err
	}
	p := sinks.NewPipeline(sinks.Parts{
		Source: bus.NewReader(s.js, bus.EventStream(0), nil, s.log), Decode: sinks.DecodeEvent, Sink: sink,
		Letters: file.NewLetters(filepath.Join(s.dir, "letters.ndjson")),
	}, &sinks.Options{Log: s.log})
	run, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.Run(run) }() // exits when run ends
	err = harness.WaitFor(ctx, "everything is sealed", time.Minute, func() bool { return p.Stats().Position >= last })
	stop()
	if ended := <-done; err == nil {
		err = ended
	}
	if err == nil {
		err = sink.Close(ctx)
	}
	if err != nil {
		return 0, err
	}
	after, err := s.used()
	return after.own - before.own, err
}
