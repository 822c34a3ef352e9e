package deferred

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"
	"uuid"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostFunc is an in-process interceptor.
type hostFunc func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error)

func (f hostFunc) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	if method != "interceptor/invoke" {
		return nil, &wire.RPCError{Code: wire.CodeMethodNotFound, Message: method}
	}
	name, _ := jsonx.Lookup(params, "name")
	text, _ := jsonx.StringOf(name)
	return f(ctx, text, params)
}

func recorded(context.Context, string, jsonx.Value) (jsonx.Value, error) {
	return jsonx.Value(`{"type":"sink","recorded":true}`), nil
}

// memory is a journal in memory; fail, when set, refuses records.
type memory struct {
	mu      sync.Mutex
	records []*schemas.Record
	fail    func(n int) error
	calls   int
}

func (m *memory) Record(_ context.Context, rec *schemas.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.fail != nil {
		if err := m.fail(m.calls); err != nil {
			return err
		}
	}
	m.records = append(m.records, rec)
	return nil
}

func (m *memory) all() []*schemas.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*schemas.Record(nil), m.records...)
}

// queue is a source in memory that notes what became of its jobs.
type queue struct {
	jobs chan Job

	mu    sync.Mutex
	acked []uuid.UUID
	naked []uuid.UUID
	beats int
	fail  error // of Ack
}

func newQueue(jobs ...Job) *queue {
	q := &queue{jobs: make(chan Job, 1000)}
	for _, job := range jobs {
		q.put(job)
	}
	return q
}

func (q *queue) put(job Job) {
	id := job.Event.ID
	job.Ack = func(context.Context) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.fail != nil {
			return q.fail
		}
		q.acked = append(q.acked, id)
		return nil
	}
	job.Nak = func(time.Duration) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.naked = append(q.naked, id)
		return nil
	}
	job.InProgress = func() error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.beats++
		return nil
	}
	q.jobs <- job
}

func (q *queue) Next(ctx context.Context) (Job, error) {
	select {
	case <-ctx.Done():
		return Job{}, ctx.Err()
	case job, ok := <-q.jobs:
		if !ok {
			return Job{}, io.EOF
		}
		return job, nil
	}
}

func (q *queue) counts() (acked, naked, beats int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.acked), len(q.naked), q.beats
}

var sink = schemas.PlanEntry{Host: "h", Name: "acme/sink", Type: schemas.TypeSink, Retries: 2}

// newJob is a request event of a session whose payload went to entry.
func newJob(entry schemas.PlanEntry, session, payload string) Job {
	return keptJob(entry, session, schemas.EntryItem{
		Header: schemas.OpenHeader{Role: schemas.RoleBefore, Salt: seal.NewSalt(), Keep: schemas.KeepFull}, Data: []byte(payload),
	})
}

func keptJob(entry schemas.PlanEntry, session string, items ...schemas.EntryItem) Job {
	id := uuid.NewV7()
	items = append(items, schemas.EntryItem{
		Header: schemas.OpenHeader{Role: schemas.RoleContext, Salt: seal.NewSalt(), Keep: schemas.KeepFull},
		Data:   []byte(`{"session_id":"` + session + `","principal_type":"user","principal":"alice","claims":{"dept":"ops"},"method":"tools/call"}`),
	})
	e := schemas.Event{
		ID: id, Kind: schemas.KindRequest, Time: schemas.At(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)), Tenant: "default",
		Correlation: &schemas.Correlation{Exchange: uuid.NewV7(), Session: seal.Pseudonym(session), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7"},
		Operation:   &schemas.Operation{Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Server: "shop", Target: "buy"},
		Invocations: []schemas.Invocation{
			{ID: "other", Host: "h", Interceptor: "other", State: schemas.StateFinished},
			{
				ID: seal.InvocationID(id, entry.Host, entry.Name, entry.Version), Host: entry.Host, Interceptor: entry.Name, Version: entry.Version,
				Type: entry.Type, Mode: entry.Mode, Order: 1, State: schemas.StateDeferred, Input: "payload.before",
			},
		},
	}
	for _, item := range items {
		if item.Header.Role == schemas.RoleSnapshot {
			continue
		}
		e.Open = append(e.Open, schemas.OpenRef{
			Role: item.Header.Role, Bytes: len(item.Data), Keep: item.Header.Keep,
			Commitment: seal.Commit(seal.DomainTrue, item.Header.Salt, item.Data),
		})
	}
	return Job{Event: e, Items: func(context.Context) ([]schemas.EntryItem, error) { return items, nil }}
}

func testOptions() WorkerOptions {
	return WorkerOptions{
		Log: slog.New(slog.DiscardHandler), Backoff: retry.Policy{Initial: time.Second, Max: time.Second, Jitter: -1},
		Timeout: 2 * time.Second,
	}
}

// start runs a worker and returns how to stop it.
func start(t *testing.T, entry schemas.PlanEntry, q *queue, host chain.Caller, journal *memory, opts WorkerOptions) (stop func()) {
	t.Helper()
	w := NewWorker(Target{Entry: entry, Config: jsonx.Value(`{"level":"high"}`)}, Deps{Source: q, Host: host, Recorder: journal}, opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("Run = %v", err)
		}
	}
}
