package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/chain/deferred"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// plansKey is the cursor that keeps the plans in force: a plan event may be trimmed long before it
// is out of force.
const plansKey = "deferred.plans"

// planState is the value of that cursor.
type planState struct {
	Position uint64               `json:"position"`
	Plans    map[string]savedPlan `json:"plans"` // by tenant, gateway and server
}

type savedPlan struct {
	Sealed jsonx.Value `json:"sealed"`
	Items  []savedItem `json:"items"`
}

type savedItem struct {
	Header schemas.OpenHeader `json:"header"`
	Data   []byte             `json:"data"`
}

// planSource hands out the plans in force, then each new one.
type planSource struct {
	js      jetstream.JetStream
	reader  *bus.Reader
	cursors *bus.Cursors
	log     *slog.Logger

	loaded bool
	state  planState
	queue  []deferred.Job
}

func newPlanSource(js jetstream.JetStream, log *slog.Logger) *planSource {
	subject := fmt.Sprintf("chaintrail.v1.%d.*.*.%s", shard, bus.EncodeToken(string(schemas.KindPlan)))
	return &planSource{
		js: js, log: log, cursors: bus.NewCursors(js),
		reader: bus.NewReader(js, bus.EventStream(shard), &bus.ReaderOptions{Subjects: []string{subject}}, log),
	}
}

// Next implements deferred.Source.
func (s *planSource) Next(ctx context.Context) (deferred.Job, error) {
	if err := s.load(ctx); err != nil {
		return deferred.Job{}, err
	}
	for len(s.queue) == 0 {
		messages, err := s.reader.Read(ctx, s.state.Position, 1, 1<<20)
		if err != nil {
			return deferred.Job{}, err
		}
		for _, m := range messages {
			s.state.Position = m.Position
			job, err := newJob(s.js, m)
			if err != nil {
				s.log.ErrorContext(ctx, "a plan cannot be read", slog.Uint64("position", m.Position), slog.Any("error", err))
				continue
			}
			job.Ack = func(ctx context.Context) error { return s.save(ctx, &job, m) }
			s.queue = append(s.queue, withoutAck(job))
		}
	}
	job := s.queue[0]
	s.queue = s.queue[1:]
	return job, nil
}

// load hands out what was in force when the last consumer stopped.
func (s *planSource) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	raw, _, err := s.cursors.Get(ctx, plansKey)
	if err != nil {
		return err
	}
	s.loaded, s.state = true, planState{Plans: map[string]savedPlan{}}
	if len(raw) == 0 {
		return nil
	}
	if err := jsonx.Unmarshal(raw, &s.state); err != nil {
		return fmt.Errorf("plans in force: %w", err)
	}
	for _, p := range s.state.Plans {
		var job deferred.Job
		if err := jsonx.Unmarshal(p.Sealed, &job.Event); err != nil {
			return fmt.Errorf("plans in force: %w", err)
		}
		items := make([]schemas.EntryItem, 0, len(p.Items))
		for _, it := range p.Items {
			items = append(items, schemas.EntryItem{Header: it.Header, Data: it.Data})
		}
		job.Items = func(context.Context) ([]schemas.EntryItem, error) { return items, nil }
		s.queue = append(s.queue, withoutAck(job))
	}
	return nil
}

// withoutAck fills in what a source that reads by position has no use for.
func withoutAck(job deferred.Job) deferred.Job {
	if job.Ack == nil {
		job.Ack = func(context.Context) error { return nil }
	}
	job.Nak = func(time.Duration) error { return nil }
	job.InProgress = func() error { return nil }
	return job
}

// save keeps a plan for the next consumer. When several consumers run, the last one writes: they all
// follow the same stream.
func (s *planSource) save(ctx context.Context, job *deferred.Job, m schemas.Message) error {
	items, err := job.Items(ctx)
	if err != nil {
		return err
	}
	p := savedPlan{Sealed: m.Data}
	for _, it := range items {
		p.Items = append(p.Items, savedItem{it.Header, it.Data})
	}
	e := &job.Event
	s.state.Plans[e.Tenant+"\x00"+e.Gateway+"\x00"+e.Plan.Server] = p
	raw, err := jsonx.Marshal(s.state)
	if err != nil {
		return err
	}
	_, revision, err := s.cursors.Get(ctx, plansKey)
	if err != nil {
		return err
	}
	_, err = s.cursors.Put(ctx, plansKey, raw, revision)
	return err
}
