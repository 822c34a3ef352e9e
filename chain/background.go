package chain

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Defaults of [BackgroundOptions].
const (
	DefaultBackgroundParallel = 4
	DefaultBackgroundPending  = 256
	DefaultBackgroundBytes    = 32 << 20
)

// BackgroundOptions bound a [Background]. Zero values mean the defaults; the bounds hold for each interceptor by
// itself, so that one that hangs delays no other.
type BackgroundOptions struct {
	Parallel   int   // invocations at a time; those of one session run one after the other
	MaxPending int   // invocations in hand, running ones included; what is over it is dropped and counted
	MaxBytes   int64 // bytes of the payloads of those
	// OnResult takes each final result, of failed and skipped invocations too. It is called concurrently, by the
	// goroutine that did the work, and holds that up for as long as it takes. It may be nil.
	OnResult func(ctx context.Context, result *DeferredResult)
	Logger   *slog.Logger // nil: discard
}

// DeferredResult is what became of one invocation that nobody waited for.
type DeferredResult struct {
	Interception uuid.UUID // of the run that handed it over
	Event        string
	Phase        schemas.Phase
	Invocation   schemas.Invocation // with its final state
	Answer       Answer             // a mutator in audit mode: Payload is what it would have made
}

// BackgroundStats count what was handed to a [Background] since it was made.
type BackgroundStats struct {
	Submitted uint64 // taken on
	Finished  uint64 // answered well
	Failed    uint64 // failed, timed out, or answered badly
	Skipped   uint64 // over the interceptor's time budget
	Dropped   uint64 // not taken on because the interceptor had too much in hand, or lost by Close
	Pending   int    // in hand now
}

// Background does deferred work in this process, where no stream of events carries it: sinks and interceptors in audit
// mode, each invoked once, never awaited. All methods are concurrent.
//
// Failure behaviour: the work is held in memory and dies with the process. An interceptor with too much in hand loses
// what comes then; a failed invocation is not tried again. Both are counted and told to OnResult or the log.
type Background struct {
	opts BackgroundOptions
	log  *slog.Logger
	seed maphash.Seed

	running sync.WaitGroup

	mu      sync.Mutex          // covers the rest
	lanes   map[lane]*[]*task   // work waiting, by lane; a lane that is here has a goroutine
	loads   map[member]load     // by interceptor
	budgets map[member]spending // of interceptors that have a budget
	tasks   map[*task]struct{}  // running
	closed  bool
	stats   BackgroundStats
	told    time.Time // when a drop was logged last
}

// member names an interceptor across plans.
type member struct{ host, name string }

// lane is work of one interceptor that is done in order.
type lane struct {
	member
	shard int
}

// spending is a budget by what the plan says of it.
type spending struct {
	perMinuteMS int64
	budget      *Budget
}

type load struct {
	pending int
	bytes   int64
}

// task is one invocation in hand.
type task struct {
	bytes  int64
	run    func()
	cancel context.CancelFunc
}

// NewBackground returns a Background that has nothing to do; options may be nil. Close it.
func NewBackground(options *BackgroundOptions) *Background {
	b := &Background{
		seed: maphash.MakeSeed(), lanes: map[lane]*[]*task{}, loads: map[member]load{},
		budgets: map[member]spending{}, tasks: map[*task]struct{}{},
	}
	if options != nil {
		b.opts = *options
	}
	if b.opts.Parallel <= 0 {
		b.opts.Parallel = DefaultBackgroundParallel
	}
	if b.opts.MaxPending <= 0 {
		b.opts.MaxPending = DefaultBackgroundPending
	}
	if b.opts.MaxBytes <= 0 {
		b.opts.MaxBytes = DefaultBackgroundBytes
	}
	if b.log = b.opts.Logger; b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	return b
}

// Submit takes on the deferred invocations of a run: plan is the one that ran, in what it was given, result what came
// of it. It never blocks. The values of ctx travel with the work, its end does not; payloads MUST NOT be changed
// afterwards.
func (b *Background) Submit(ctx context.Context, plan *Plan, in *Input, result *Result) {
	for i := range result.Invocations {
		inv := &result.Invocations[i]
		if inv.State != schemas.StateDeferred {
			continue
		}
		m := plan.find(inv.Host, inv.Interceptor)
		if m == nil {
			continue
		}
		own := *in
		own.Payload = result.PayloadOf(in, inv.Input)
		b.put(ctx, m, own, *inv)
	}
}

// put takes one invocation on, or drops it.
func (b *Background) put(ctx context.Context, m *Interceptor, in Input, inv schemas.Invocation) {
	key := member{inv.Host, inv.Interceptor}
	place := lane{key, b.shard(&in)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &task{bytes: int64(len(in.Payload)), cancel: cancel}
	t.run = func() { b.invoke(ctx, key, m, in, inv) }

	b.mu.Lock()
	defer b.mu.Unlock()
	has := b.loads[key]
	if b.closed || has.pending >= b.opts.MaxPending || (has.pending > 0 && has.bytes+t.bytes > b.opts.MaxBytes) {
		b.drop(ctx, key)
		cancel()
		return
	}
	b.loads[key] = load{has.pending + 1, has.bytes + t.bytes}
	b.stats.Submitted++
	b.stats.Pending++
	if queue := b.lanes[place]; queue != nil {
		*queue = append(*queue, t)
		return
	}
	b.lanes[place] = &[]*task{t}
	b.running.Go(func() { b.drain(place) }) // exits when the lane is empty
}

// drop counts what is lost; b.mu is held.
func (b *Background) drop(ctx context.Context, key member) {
	b.stats.Dropped++
	if b.closed {
		return
	}
	if now := time.Now(); now.Sub(b.told) >= dropEvery {
		b.told = now
		b.log.WarnContext(ctx, "deferred work is dropped: the interceptor has too much in hand",
			slog.String("host", key.host), slog.String("interceptor", key.name), slog.Uint64("dropped", b.stats.Dropped))
	}
}

// dropEvery is how often a drop is logged at most.
const dropEvery = 30 * time.Second

// shard keeps the work of a session, or else of a principal, in one lane.
func (b *Background) shard(in *Input) int {
	key := in.Context.SessionID
	if key == "" {
		key = in.Context.Principal.ID
	}
	if key == "" {
		key = string(in.Interception[:])
	}
	return int(maphash.String(b.seed, key) % uint64(b.opts.Parallel)) //nolint:gosec // less than Parallel, which is an int
}

// drain works on a lane until it is empty.
func (b *Background) drain(place lane) {
	for {
		b.mu.Lock()
		queue := b.lanes[place]
		if len(*queue) == 0 {
			delete(b.lanes, place)
			b.mu.Unlock()
			return
		}
		t := (*queue)[0]
		(*queue)[0] = nil
		*queue = (*queue)[1:]
		b.tasks[t] = struct{}{}
		b.mu.Unlock()

		t.run()
		t.cancel()

		b.mu.Lock()
		delete(b.tasks, t)
		b.release(place.member, t)
		b.mu.Unlock()
	}
}

// release gives back what a task held; b.mu is held.
func (b *Background) release(key member, t *task) {
	has := b.loads[key]
	if has.pending--; has.pending == 0 {
		delete(b.loads, key)
	} else {
		b.loads[key] = load{has.pending, has.bytes - t.bytes}
	}
	b.stats.Pending--
}

// invoke brings one invocation to its end.
func (b *Background) invoke(ctx context.Context, key member, m *Interceptor, in Input, inv schemas.Invocation) {
	result := DeferredResult{Interception: in.Interception, Event: in.Event, Phase: in.Phase, Invocation: inv}
	limit := b.budgetOf(key, &m.entry)
	if limit.Spent(time.Now()) {
		result.Invocation.State, result.Invocation.SkipReason = schemas.StateSkipped, schemas.SkipBudget
	} else {
		const attempt = 1
		meta := jsonx.Value(AppendMeta(make([]byte, 0, 256), &inv, uuid.Nil(), in.Phase, attempt))
		result.Answer = m.Invoke(ctx, in, meta)
		limit.Charge(result.Answer.Duration)
		result.Answer.Fill(&result.Invocation)
		result.Invocation.Attempt = attempt
	}
	b.mu.Lock()
	switch result.Invocation.State {
	case schemas.StateSkipped:
		b.stats.Skipped++
	case schemas.StateFinished:
		b.stats.Finished++
	default:
		b.stats.Failed++
	}
	b.mu.Unlock()
	if b.opts.OnResult != nil {
		b.opts.OnResult(ctx, &result)
		return
	}
	if a := &result.Answer; result.Invocation.State != schemas.StateSkipped && !a.Finished() {
		b.log.WarnContext(ctx, "a deferred invocation failed", slog.String("host", key.host),
			slog.String("interceptor", key.name), slog.String("state", string(a.State)), slog.Int("code", a.ErrorCode))
	}
}

// budgetOf returns the budget of an interceptor; nil when it has none.
func (b *Background) budgetOf(key member, entry *schemas.PlanEntry) *Budget {
	if entry.BudgetMS <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	have := b.budgets[key]
	if have.perMinuteMS != entry.BudgetMS {
		have = spending{entry.BudgetMS, NewBudget(entry.BudgetMS)}
		b.budgets[key] = have
	}
	return have.budget
}

// Stats returns the counts at this moment.
func (b *Background) Stats() BackgroundStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Close takes on nothing more and waits for what is in hand. When ctx ends first, what waits is dropped, what runs is
// cancelled, and the error tells how much was lost. It returns when nothing runs any more.
func (b *Background) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); b.running.Wait() }() // exits when nothing runs, which Close waits for
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	lost := b.abandon()
	<-done
	if lost == 0 {
		return nil
	}
	return fmt.Errorf("%d deferred invocations did not end in time: %w", lost, context.Cause(ctx))
}

// abandon drops what waits and cancels what runs.
func (b *Background) abandon() (lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lost = len(b.tasks)
	for t := range b.tasks {
		t.cancel()
	}
	for place, queue := range b.lanes {
		for _, t := range *queue {
			t.cancel()
			b.release(place.member, t)
			b.stats.Dropped++
			lost++
		}
		*queue = nil
	}
	return lost
}
