package deferred

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// Defaults of [WorkerOptions].
const (
	DefaultParallel   = 8
	DefaultMaxPending = 64
	DefaultTimeout    = 10 * time.Second
	DefaultDeadline   = 5 * time.Minute
	DefaultHeartbeat  = 10 * time.Second
	DefaultDrain      = 3 * time.Second
	DefaultMaxAnswer  = 16 << 20
	DefaultRemembered = 16_384
)

// errFailed stands for an answer that is no well-formed result; what was wrong is in the answer.
var errFailed = errors.New("the interceptor failed")

// lostPause is how long to wait before a server that is being reconnected is called again.
const lostPause = time.Second

// WorkerOptions bound the work. Zero values mean the defaults.
type WorkerOptions struct {
	Parallel   int           // invocations at a time
	MaxPending int           // jobs in hand, waiting ones included
	Timeout    time.Duration // of one try, where the plan has none
	Deadline   time.Duration // no try of an invocation begins later than this after its first
	Heartbeat  time.Duration // how often jobs in hand are kept; well below the source's own wait
	Drain      time.Duration // at the end: for tries under way and their results
	MaxAnswer  int           // bytes of an answer
	Remembered int           // ids of results that are remembered to skip what is handed out again
	Backoff    retry.Policy  // pauses between tries; its own bounds are not used
	Log        *slog.Logger  // required
}

func (o WorkerOptions) withDefaults() WorkerOptions {
	for _, d := range []struct {
		v     *int
		value int
	}{
		{&o.Parallel, DefaultParallel},
		{&o.MaxPending, DefaultMaxPending},
		{&o.MaxAnswer, DefaultMaxAnswer},
		{&o.Remembered, DefaultRemembered},
	} {
		if *d.v <= 0 {
			*d.v = d.value
		}
	}
	for _, d := range []struct {
		v     *time.Duration
		value time.Duration
	}{
		{&o.Timeout, DefaultTimeout},
		{&o.Deadline, DefaultDeadline},
		{&o.Heartbeat, DefaultHeartbeat},
		{&o.Drain, DefaultDrain},
	} {
		if *d.v <= 0 {
			*d.v = d.value
		}
	}
	return o
}

// Deps are what a worker works with; all are required, but Open where no snapshots travel, and Budget.
type Deps struct {
	Source   Source
	Host     chain.Caller
	Recorder chain.Recorder
	Open     Opener
	Budget   *chain.Budget // outlives the worker; nil: a new one by the target
}

// Worker does the deferred work of one interceptor.
type Worker struct {
	target Target
	deps   Deps
	opts   WorkerOptions
	log    *slog.Logger
	seen   *seen
}

// NewWorker returns a worker for the interceptor that target names.
func NewWorker(target Target, deps Deps, opts WorkerOptions) *Worker {
	opts = opts.withDefaults()
	if target.Entry.TimeoutMS <= 0 {
		target.Entry.TimeoutMS = opts.Timeout.Milliseconds()
	}
	if deps.Budget == nil {
		deps.Budget = chain.NewBudget(target.Entry.BudgetMS)
	}
	return &Worker{
		target: target, deps: deps, opts: opts, seen: newSeen(opts.Remembered),
		log: opts.Log.With(slog.String("host", target.Entry.Host), slog.String("interceptor", target.Entry.Name)),
	}
}

// Run takes jobs until ctx is done or the source is closed. Tries under way then have
// [WorkerOptions.Drain] to end and to be recorded; what has not ended, or had not begun, goes back to
// the source. It is called once.
func (w *Worker) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	hard, stopHard := context.WithCancel(context.WithoutCancel(ctx))
	lanes := newLanes(w.opts.Parallel, w.opts.MaxPending, func(ctx context.Context, job Job) { w.work(ctx, hard, job) })
	var group sync.WaitGroup
	group.Go(func() { // exits when hard ends
		lanes.keepAlive(hard, w.opts.Heartbeat, func(err error) {
			w.log.WarnContext(hard, "a job in hand could not be kept", slog.Any("error", err))
		})
	})
	group.Go(func() { // exits when hard ends, which it brings about
		<-ctx.Done()
		retry.Sleep(hard, w.opts.Drain)
		stopHard()
	})
	defer func() {
		stop()
		lanes.wait()
		stopHard()
		group.Wait()
	}()
	for {
		if err := lanes.room(ctx); err != nil {
			return nil
		}
		job, err := w.deps.Source.Next(ctx)
		if err != nil {
			lanes.release()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("deferred work of %s: %w", w.target.Entry.Name, err)
		}
		lanes.put(ctx, laneOf(&job.Event), job)
	}
}

// laneOf is what jobs of one order share: the session, else the principal, else the exchange.
func laneOf(e *schemas.Event) string {
	if c := e.Correlation; c != nil && c.Session != "" {
		return "s" + string(c.Session)
	}
	if a := e.Actor; a != nil && a.Pseudonym != "" {
		return "p" + string(a.Pseudonym)
	}
	if c := e.Correlation; c != nil {
		return "x" + c.Exchange.String()
	}
	return "e" + e.ID.String()
}

// work brings one job to its end. When ctx is done nothing new is begun; hard ends what is under way.
func (w *Worker) work(ctx, hard context.Context, job Job) {
	for i := range job.Event.Invocations {
		inv := &job.Event.Invocations[i]
		if inv.State != schemas.StateDeferred || inv.Host != w.target.Entry.Host || inv.Interceptor != w.target.Entry.Name {
			continue
		}
		if w.seen.has(inv.ID) {
			continue
		}
		res, ok := w.result(ctx, hard, &job, *inv)
		if !ok || !w.record(hard, &job, res) {
			w.giveBack(ctx, job)
			return
		}
	}
	// Not repeated: a lost acknowledgement costs one more delivery, which is seen to be done.
	if err := job.Ack(hard); err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, "a job that is done could not be acknowledged and will be handed out again", slog.Any("error", err))
	}
}

// record journals a final result, however long that takes; false means that ctx ended before.
func (w *Worker) record(ctx context.Context, job *Job, res result) bool {
	rec := res.record(&job.Event)
	err := retry.Do(ctx, retry.Policy{Notify: retry.Seldom(func(err error, tries int, _ time.Duration) {
		w.log.WarnContext(ctx, "a result waits for the journal", slog.Any("error", err), slog.Int("tries", tries))
	})}, func(ctx context.Context) error { return w.deps.Recorder.Record(ctx, rec) })
	if err != nil {
		w.log.ErrorContext(ctx, "a result could not be recorded; its job will be handed out again",
			slog.String("invocation", res.inv.ID), slog.Any("error", err))
		return false
	}
	w.seen.add(res.inv.ID)
	return true
}

func (w *Worker) giveBack(ctx context.Context, job Job) {
	if err := job.Nak(time.Second); err != nil {
		w.log.DebugContext(ctx, "a job goes back when its time is up", slog.Any("error", err))
	}
}

// items reads the open items of job; while they cannot be read it repeats.
func (w *Worker) items(ctx context.Context, job *Job) (items []schemas.EntryItem, err error) {
	err = retry.Do(ctx, retry.Policy{Notify: retry.Seldom(func(err error, tries int, _ time.Duration) {
		w.log.WarnContext(ctx, "open items cannot be read",
			slog.Any("event", job.Event.ID), slog.Any("error", err), slog.Int("tries", tries))
	})}, func(ctx context.Context) error {
		items, err = job.Items(ctx)
		return err
	})
	return items, err
}

// result runs the invocation; ok is false when the worker ended before there was a final result.
func (w *Worker) result(ctx, hard context.Context, job *Job, inv schemas.Invocation) (res result, ok bool) {
	res = result{inv: inv}
	if w.deps.Budget.Spent(time.Now()) {
		res.inv.State, res.inv.SkipReason = schemas.StateSkipped, schemas.SkipBudget
		return res, true
	}
	items, err := w.items(ctx, job)
	if err != nil && !retry.IsPermanent(err) {
		return res, false
	}
	var payload, about []byte
	if err == nil {
		truth := truths{event: &job.Event, items: items, open: w.deps.Open}
		payload, err = truth.of(inv.Input)
		if err == nil {
			about, err = truth.of(string(schemas.RoleContext))
			if errors.Is(err, errGone) {
				err = nil // what the event itself tells has to do
			}
		}
	}
	switch {
	case errors.Is(err, errGone):
		res.inv.State, res.inv.SkipReason = schemas.StateSkipped, schemas.SkipErased
		return res, true
	case err != nil:
		res.fail(err)
		return res, true
	}
	call, err := newCall(&job.Event, &inv, payload, about)
	if err != nil {
		res.fail(err)
		return res, true
	}
	return w.tries(ctx, hard, call, res)
}

// tries invokes until there is a well-formed answer or the tries or the time are used up; false means
// that the worker ended before.
func (w *Worker) tries(ctx, hard context.Context, call *call, res result) (result, bool) {
	policy := w.opts.Backoff
	policy.MaxTries, policy.MaxElapsed, policy.Notify = w.target.Entry.Retries+1, 0, nil
	attempt, ended := 0, false
	var last time.Time // of the time for all tries
	err := retry.Do(hard, policy, func(hard context.Context) error {
		if attempt > 0 && (!time.Now().Before(last) || w.deps.Budget.Spent(time.Now())) {
			return retry.Permanent(errFailed)
		}
		answer, sent := w.try(ctx, hard, call, attempt+1)
		w.deps.Budget.Charge(answer.Duration)
		if ended = !sent || !answer.Finished() && hard.Err() != nil; ended {
			return retry.Permanent(errFailed) // the end of the worker, not a failure of the interceptor
		}
		if attempt++; attempt == 1 {
			last = time.Now().Add(w.opts.Deadline - answer.Duration)
		}
		res.take(&answer, attempt)
		switch {
		case answer.Finished():
			return nil
		case hopeless(&answer):
			return retry.Permanent(errFailed)
		}
		return errFailed
	})
	if ended {
		return res, false
	}
	if err != nil {
		w.log.WarnContext(ctx, "a deferred invocation failed for good",
			slog.String("invocation", res.inv.ID), slog.String("state", string(res.inv.State)), slog.Int("tries", attempt))
	}
	return res, true
}

// try invokes once. While the interceptor server is lost it waits, however long: a call that was never
// sent is no try, and the backlog is safe in the stream. False means that ctx ended before it was sent.
func (w *Worker) try(ctx, hard context.Context, call *call, attempt int) (answer chain.Answer, sent bool) {
	for ctx.Err() == nil {
		g := &guard{next: w.deps.Host, most: w.opts.MaxAnswer}
		answer = chain.NewInterceptor(w.target.Entry, w.target.Config, g).Invoke(hard, call.input, call.metaFor(attempt))
		if !g.lost {
			return answer, true
		}
		retry.Sleep(ctx, lostPause)
	}
	return answer, false
}
