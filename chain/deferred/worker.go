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

// lostPause is how long to wait before a server that is being reconnected is called again.
const lostPause = time.Second

// WorkerOptions bound the work. Zero values mean the defaults.
type WorkerOptions struct {
	Parallel   int           // invocations at a time
	MaxPending int           // jobs in hand, waiting ones included
	Timeout    time.Duration // of one try, where the plan has none
	Deadline   time.Duration // of one invocation with all its tries, from its first
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

// Deps are what a worker works with; all are required, but Open where no snapshots travel.
type Deps struct {
	Source   Source
	Host     Host
	Recorder chain.Recorder
	Open     Opener
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
	return &Worker{
		target: target, deps: deps, opts: opts, seen: newSeen(opts.Remembered),
		log: opts.Log.With("host", target.Entry.Host, "interceptor", target.Entry.Name),
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
			w.log.Warn("a job in hand could not be kept", "error", err)
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
			return nil //nolint:nilerr // the end of ctx is the ordinary end
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
			w.giveBack(job)
			return
		}
	}
	err := retry.Do(hard, retry.Policy{MaxTries: 3}, job.Ack)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("a job that is done could not be acknowledged and will be handed out again", "error", err)
	}
}

// record journals a final result, however long that takes; false means that ctx ended before.
func (w *Worker) record(ctx context.Context, job *Job, res result) bool {
	rec := res.record(&job.Event)
	err := retry.Do(ctx, retry.Policy{Notify: func(err error, tries int, _ time.Duration) {
		w.log.Warn("a result waits for the journal", "error", err, "tries", tries)
	}}, func(ctx context.Context) error { return w.deps.Recorder.Record(ctx, rec) })
	if err != nil {
		w.log.Error("a result could not be recorded; its job will be handed out again", "invocation", res.inv.ID, "error", err)
		return false
	}
	w.seen.add(res.inv.ID)
	return true
}

func (w *Worker) giveBack(job Job) {
	if err := job.Nak(time.Second); err != nil {
		w.log.Debug("a job goes back when its time is up", "error", err)
	}
}

// items reads the open items of job; while they cannot be read it repeats.
func (w *Worker) items(ctx context.Context, job *Job) (items []schemas.EntryItem, err error) {
	err = retry.Do(ctx, retry.Policy{Notify: func(err error, tries int, _ time.Duration) {
		w.log.Warn("open items cannot be read", "event", job.Event.ID, "error", err, "tries", tries)
	}}, func(ctx context.Context) error {
		items, err = job.Items(ctx)
		return err
	})
	return items, err
}

// result runs the invocation; ok is false when the worker ended before there was a final result.
func (w *Worker) result(ctx, hard context.Context, job *Job, inv schemas.Invocation) (res result, ok bool) {
	res = result{inv: inv, detail: schemas.InvocationDetail{Order: inv.Order, Interceptor: inv.Interceptor}}
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
	call, err := newCall(&job.Event, &inv, w.target, payload, about)
	if err != nil {
		res.fail(err)
		return res, true
	}
	return w.tries(ctx, hard, call, res)
}

// tries invokes until there is a well-formed answer or the tries or the time are used up.
func (w *Worker) tries(ctx, hard context.Context, call *call, res result) (result, bool) {
	all, cancel := context.WithTimeout(hard, w.opts.Deadline)
	defer cancel()
	policy := w.opts.Backoff
	policy.MaxTries, policy.MaxElapsed, policy.Notify = w.target.Entry.Retries+1, 0, nil
	base, attempt, answered, ended := res, 0, false, false
	err := retry.Do(all, policy, func(all context.Context) error {
		if ended = ctx.Err() != nil; ended {
			return retry.Permanent(context.Cause(ctx))
		}
		attempt++
		next, err := w.connectedTry(all, call, attempt, base)
		if ended = err != nil && hard.Err() != nil; ended {
			return retry.Permanent(err) // the end of the worker, not a failure of the interceptor
		}
		res, answered = next, true
		return err
	})
	if ended {
		return res, false
	}
	if err != nil {
		w.log.Warn("a deferred invocation failed for good", "invocation", res.inv.ID, "state", string(res.inv.State), "tries", attempt)
	}
	return res, answered
}

// connectedTry is one try; while the interceptor server is lost it waits, because a call that was never
// sent is no try.
func (w *Worker) connectedTry(ctx context.Context, call *call, attempt int, res result) (result, error) {
	for {
		next := result{inv: res.inv, detail: res.detail}
		next.inv.Attempt = attempt
		err := w.try(ctx, call, attempt, &next)
		if !errors.Is(err, chain.ErrLost) || !retry.Sleep(ctx, lostPause) {
			return next, err
		}
	}
}

// try invokes once and fills res; the error says that another try may help.
func (w *Worker) try(ctx context.Context, call *call, attempt int, res *result) error {
	timeout := w.opts.Timeout
	if ms := w.target.Entry.TimeoutMS; ms > 0 {
		timeout = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	answer, err := invoke(ctx, w.deps.Host, call.entry.Name, call.params(attempt, timeout))
	res.inv.DurationUS = time.Since(start).Microseconds()
	if err != nil {
		res.failCall(ctx, err)
		if finalCode(res.inv.ErrorCode) {
			return retry.Permanent(err)
		}
		return err
	}
	if len(answer) > w.opts.MaxAnswer {
		err = fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(answer), w.opts.MaxAnswer)
	} else {
		err = res.read(call, answer)
	}
	if err != nil {
		res.malformed(err)
	}
	return err
}

// invoke turns a panic of an in-process interceptor into an error.
func invoke(ctx context.Context, host Host, name string, params []byte) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", chain.ErrPanic, p)
		}
	}()
	return host.Invoke(ctx, name, params)
}
