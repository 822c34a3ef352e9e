package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/audit/redact"
	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/chain/deferred"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// deferredHold is how long the work of a killed consumer waits before it is handed out again.
const deferredHold = 8 * time.Second

// runDeferred runs the sinks and audit-mode interceptors that this process can reach.
func (n *node) runDeferred(ctx context.Context) error {
	if err := n.addBuiltins(n.cfg); err != nil {
		return err
	}
	manager := deferred.NewManager(deferred.ManagerOptions{
		Plans: newPlanSource(n.bus.js, n.log),
		Sources: func(_ context.Context, entry schemas.PlanEntry) (deferred.Source, error) {
			work, err := bus.NewWork(n.bus.js, bus.WorkConfig{
				Name: entry.Host + "/" + entry.Name, Shard: shard, AckWait: deferredHold,
			}, n.log)
			if err != nil {
				return nil, err
			}
			return &workSource{work: work, js: n.bus.js, log: n.log}, nil
		},
		Connect:  n.connectDeferred,
		Local:    n.localRef,
		Recorder: n.recorder,
		Open:     n.openSnapshot,
		Worker:   deferred.WorkerOptions{Log: n.log, Heartbeat: deferredHold / 4},
	})
	return n.group.Start(ctx, lifecycle.Background("deferred work", manager.Run))
}

// openSnapshot decrypts what a gateway kept for deferred work only.
func (n *node) openSnapshot(item schemas.EntryItem) ([]byte, error) {
	data, err := redact.OpenSnapshot(n.keys.snapshot, item)
	if err != nil {
		err = fmt.Errorf("%w (on another machine, copy keys/snapshot.key from the gateway's data directory before consume starts)", err)
	}
	return data, err
}

// workSource makes jobs of what the bus hands out.
type workSource struct {
	work *bus.Work
	js   jetstream.JetStream
	log  *slog.Logger
}

// Next implements deferred.Source. What cannot be read as an event is nobody's work: the store
// dead-letters it.
func (s *workSource) Next(ctx context.Context) (deferred.Job, error) {
	for {
		in, err := s.work.Next(ctx)
		if err != nil {
			return deferred.Job{}, err
		}
		job, err := newJob(s.js, in.Message)
		if err == nil {
			job.Ack, job.Nak, job.InProgress = in.Ack, in.Nak, in.InProgress
			return job, nil
		}
		s.log.ErrorContext(ctx, "a message is no event", slog.Uint64("position", in.Message.Position), slog.Any("error", err))
		if err := in.Ack(ctx); err != nil {
			s.log.WarnContext(ctx, "a message that is no event could not be acknowledged", slog.Any("error", err))
		}
	}
}

// Close implements io.Closer.
func (s *workSource) Close() error { //nolint:unparam // io.Closer
	s.work.Close()
	return nil
}

func newJob(js jetstream.JetStream, m schemas.Message) (deferred.Job, error) {
	var job deferred.Job
	if err := jsonx.Unmarshal(m.Data, &job.Event); err != nil {
		return job, err
	}
	hash, err := bus.Hash(m.Header)
	if err != nil {
		return job, err
	}
	job.Hash = hash
	job.Items = func(ctx context.Context) ([]schemas.EntryItem, error) { return bus.OpenItems(ctx, js, m) }
	return job, nil
}
