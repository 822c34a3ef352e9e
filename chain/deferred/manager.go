package deferred

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// DefaultLinger is how long a worker that no plan names any more still takes what is left for it.
const DefaultLinger = time.Minute

// Connect reaches the interceptor server of a plan. It returns [ErrNotHere] for one that is served by
// another process. The connection is closed after its last use, and made again when it is lost.
type Connect func(ctx context.Context, ref schemas.HostRef) (chain.Conn, error)

// OpenSource returns the source of the work deferred to one interceptor. A source that is an io.Closer is
// closed after its last use.
type OpenSource func(ctx context.Context, entry schemas.PlanEntry) (Source, error)

// ManagerOptions say what a [Manager] works with.
type ManagerOptions struct {
	Plans    Source         // required: plan events, from the oldest that may be in force
	Sources  OpenSource     // required
	Connect  Connect        // required
	Recorder chain.Recorder // required
	Open     Opener         // nil: no snapshots can be opened
	// Local returns what this process itself knows of an interceptor server, such as secrets that plan
	// events do not hold; nil takes what the plan says. It is given what is known from the plan.
	Local  func(ref schemas.HostRef) schemas.HostRef
	Worker WorkerOptions
	Linger time.Duration // 0 means DefaultLinger
}

// Manager keeps a worker for every interceptor that a plan in force defers work to. Plans come from
// several backends and gateways: the last one of each is in force. Where two of them reach one
// interceptor in different ways, the last event decides.
type Manager struct {
	opts ManagerOptions
	log  *slog.Logger

	mu      sync.Mutex // covers what follows
	plans   map[planKey]map[workerKey]spec
	workers map[workerKey]*running
	group   sync.WaitGroup
}

type planKey struct{ tenant, gateway, server string }

type workerKey struct{ host, name string }

// spec is what a worker is made of; another one needs another worker.
type spec struct {
	target Target
	ref    schemas.HostRef
	form   []byte // deterministic form of both, for comparison
}

type running struct {
	spec   spec
	budget *chain.Budget // nil: none
	stop   context.CancelFunc
	done   chan struct{}
	last   *idle
}

// NewManager returns a manager without workers.
func NewManager(opts ManagerOptions) *Manager {
	if opts.Linger <= 0 {
		opts.Linger = DefaultLinger
	}
	return &Manager{
		opts: opts, log: opts.Worker.Log,
		plans: map[planKey]map[workerKey]spec{}, workers: map[workerKey]*running{},
	}
}

// Run follows the plans until ctx is done, then waits for the workers. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	defer m.group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m.group.Go(func() { m.sweep(ctx) }) // exits when Run ends
	for {
		job, err := m.opts.Plans.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("follow plans: %w", err)
		}
		if err := m.follow(ctx, job); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			m.log.ErrorContext(ctx, "a plan cannot be followed; its deferred work waits in the stream",
				slog.Any("event", job.Event.ID), slog.Any("error", err))
		}
		if err := job.Ack(ctx); err != nil && ctx.Err() == nil {
			m.log.WarnContext(ctx, "a plan event could not be acknowledged and will be read again", slog.Any("error", err))
		}
	}
}

// follow puts a plan in force.
func (m *Manager) follow(ctx context.Context, job Job) error {
	plan := job.Event.Plan
	if plan == nil {
		return fmt.Errorf("%w: the event holds no plan", ErrPayload)
	}
	refs, err := m.hosts(ctx, job)
	if err != nil {
		return err
	}
	wanted := map[workerKey]spec{}
	for _, entry := range plan.Entries {
		if entry.Type != schemas.TypeSink && entry.Mode != schemas.ModeAudit && entry.Canary.IsZero() {
			continue
		}
		ref := refs[entry.Host]
		ref.Host = entry.Host
		if m.opts.Local != nil {
			ref = m.opts.Local(ref)
		}
		if !configured(&entry, ref.Configs[entry.OwnName()]) {
			m.log.ErrorContext(ctx, "deferred work waits in the stream: this process does not have the configuration that the plan names; give it the same, or the snapshot key",
				slog.String("host", entry.Host), slog.String("interceptor", entry.Name))
			continue
		}
		s := spec{target: Target{Entry: entry, Config: ref.Configs[entry.OwnName()]}, ref: ref}
		ref.Configs = map[string]jsonx.Value{entry.OwnName(): s.target.Config} // another one's does not matter here
		if s.form, err = jsonx.MarshalDeterministic(struct {
			Entry schemas.PlanEntry
			Ref   schemas.HostRef
		}{entry, ref}); err != nil {
			return fmt.Errorf("plan of %s: %w", plan.Server, err)
		}
		wanted[workerKey{entry.Host, entry.Name}] = s
	}
	m.mu.Lock()
	m.plans[planKey{job.Event.Tenant, job.Event.Gateway, plan.Server}] = wanted
	m.mu.Unlock()
	for key, s := range wanted {
		m.ensure(ctx, key, s)
	}
	return nil
}

// configured reports whether config is the one that the plan names.
func configured(entry *schemas.PlanEntry, config jsonx.Value) bool {
	if entry.Config.IsZero() || len(config) == 0 {
		return entry.Config.IsZero() == (len(config) == 0)
	}
	canonical, err := jsonx.Canonical(config)
	return err == nil && entry.Config == sha256.Sum256(canonical)
}

// hosts reads how the interceptors of a plan are reached.
func (m *Manager) hosts(ctx context.Context, job Job) (refs map[string]schemas.HostRef, err error) {
	refs = map[string]schemas.HostRef{}
	var items []schemas.EntryItem
	err = retry.Do(ctx, retry.Policy{}, func(ctx context.Context) error {
		items, err = job.Items(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	truth := truths{event: &job.Event, items: items, open: m.opts.Open}
	text, err := truth.of(string(schemas.RoleHosts))
	if errors.Is(err, errGone) {
		return refs, nil // in-process ones, or those whose way this process knows itself
	}
	if err != nil {
		return nil, err
	}
	var list []schemas.HostRef
	if err := jsonx.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("hosts of the plan: %w", err)
	}
	for _, ref := range list {
		refs[ref.Host] = ref
	}
	return refs, nil
}

// ensure runs a worker by spec; one by another spec is stopped first.
func (m *Manager) ensure(ctx context.Context, key workerKey, s spec) {
	m.mu.Lock()
	old := m.workers[key]
	m.mu.Unlock()
	if old != nil {
		if bytes.Equal(old.spec.form, s.form) && !old.ended() {
			return
		}
		old.stop()
		<-old.done
	}
	workerCtx, stop := context.WithCancel(ctx)
	r := &running{spec: s, budget: chain.NewBudget(s.target.Entry.BudgetMS), stop: stop, done: make(chan struct{}), last: newIdle()}
	m.mu.Lock()
	m.workers[key] = r
	m.mu.Unlock()
	m.group.Go(func() { // exits when the worker was stopped, or cannot be here
		defer close(r.done)
		defer stop()
		m.work(workerCtx, r)
	})
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// work connects and runs one worker until ctx is done; it begins anew after a failure.
func (m *Manager) work(ctx context.Context, r *running) {
	log := m.log.With(slog.String("host", r.spec.ref.Host), slog.String("interceptor", r.spec.target.Entry.Name))
	_ = retry.Do(ctx, retry.Policy{Notify: retry.Seldom(func(err error, tries int, pause time.Duration) {
		log.WarnContext(ctx, "deferred work waits for its interceptor", slog.Any("error", err), slog.Int("tries", tries), slog.Duration("pause", pause))
	})}, func(ctx context.Context) error {
		err := m.workOnce(ctx, r)
		switch {
		case errors.Is(err, ErrNotHere):
			log.DebugContext(ctx, "deferred work is done by another process", slog.Any("reason", err))
			return retry.Permanent(err)
		case ctx.Err() != nil:
			return retry.Permanent(context.Cause(ctx)) // the ordinary end
		}
		return err
	})
}

func (m *Manager) workOnce(ctx context.Context, r *running) error {
	s := r.spec
	host := &link{connect: func(ctx context.Context) (chain.Conn, error) { return m.opts.Connect(ctx, s.ref) }}
	defer closeIt(host)
	if _, err := host.live(ctx); err != nil {
		return err
	}
	source, err := m.opts.Sources(ctx, s.target.Entry)
	if err != nil {
		return err
	}
	defer closeIt(source)
	deps := Deps{Source: watched{source, r.last}, Host: host, Recorder: m.opts.Recorder, Open: m.opts.Open, Budget: r.budget}
	return NewWorker(s.target, deps, m.opts.Worker).Run(ctx)
}

func closeIt(v any) {
	if c, ok := v.(io.Closer); ok {
		_ = c.Close()
	}
}

// sweep stops workers that no plan names and that have had nothing to do for a while.
func (m *Manager) sweep(ctx context.Context) {
	for retry.Sleep(ctx, m.opts.Linger/2) {
		for key, r := range m.unnamed() {
			if r.last.since() < m.opts.Linger {
				continue
			}
			m.log.InfoContext(ctx, "deferred work ended: no plan names the interceptor", slog.String("host", key.host), slog.String("interceptor", key.name))
			r.stop()
			<-r.done
			m.mu.Lock()
			if m.workers[key] == r {
				delete(m.workers, key)
			}
			m.mu.Unlock()
		}
	}
}

func (m *Manager) unnamed() map[workerKey]*running {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := map[workerKey]*running{}
	for key, r := range m.workers {
		named := false
		for _, wanted := range m.plans {
			if _, ok := wanted[key]; ok {
				named = true
			}
		}
		if !named {
			left[key] = r
		}
	}
	return left
}

// Workers returns, in no order, the names "host/interceptor" of the workers that run here.
func (m *Manager) Workers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for key, r := range m.workers {
		if !r.ended() {
			names = append(names, key.host+"/"+key.name)
		}
	}
	return names
}

// idle knows when the last job came.
type idle struct {
	mu sync.Mutex // covers at
	at time.Time
}

func newIdle() *idle { return &idle{at: time.Now()} }

func (i *idle) touch() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.at = time.Now()
}

func (i *idle) since() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return time.Since(i.at)
}

// watched notes when a job came.
type watched struct {
	Source
	last *idle
}

func (w watched) Next(ctx context.Context) (Job, error) {
	job, err := w.Source.Next(ctx)
	if err == nil {
		w.last.touch()
	}
	return job, err
}
