package chain

import (
	"context"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// asSent is the version of a payload that no mutator has touched; any other version is the order of the mutator that
// made it.
const asSent = -1

// run is one message on its way through a plan.
type run struct {
	plan     *Plan
	seq      *sequence
	in       *Input
	start    time.Time
	deadline time.Time // of the whole; zero: never

	message message // the current payload
	version int     // of it
	made    []Step  // every version that a mutator made

	invs    []schemas.Invocation
	answers []Answer
	given   []int // by order: the version that it was given, or would have been
	result  Result

	crew validators
}

// Run takes a message through the plan: validators at once, mutators one after the other, in the order of the
// direction. It returns when every validator has finished and nothing runs any more. Sinks and interceptors in audit
// mode never run here: their invocations come back deferred, each with the name of the payload of its own stage, also
// when the message is denied.
//
// A result without a denial means: go on with its Payload. When ctx ends, Run returns soon with StatusCancelled and a
// denial that has no interceptor. It does not fail, and it never changes in.Payload.
func (p *Plan) Run(ctx context.Context, in Input) Result {
	seq := p.sequence(in.Event, in.Phase, in.Direction)
	if len(seq.items) == 0 {
		res := notRun(&in)
		res.PlanDigest = p.record.Digest
		return res
	}
	if seq.varies {
		seq = seq.rolledOut(&in)
	}
	return p.runSequence(ctx, seq, in)
}

// notRun is the result when no interceptor is due.
func notRun(in *Input) Result { return Result{Status: schemas.StatusNotRun, Payload: in.Payload} }

func (p *Plan) runSequence(ctx context.Context, seq *sequence, in Input) Result {
	r := run{
		plan: p, seq: seq, in: &in, start: time.Now(), version: asSent,
		invs:  append([]schemas.Invocation(nil), seq.template...),
		given: make([]int, len(seq.items)),
	}
	r.deadline = p.deadline(r.start)
	r.result = Result{Status: schemas.StatusSuccess, Payload: in.Payload, PlanDigest: p.record.Digest}
	r.identify()
	if seq.inPath {
		r.answers = make([]Answer, len(seq.items))
		r.message = newMessage(&in)
	}
	if in.Direction == schemas.Sending {
		r.mutate(ctx)
		r.validate(ctx)
	} else {
		r.validate(ctx)
		r.mutate(ctx)
	}
	r.finish()
	return r.result
}

// identify gives every invocation its id; all ids share one string.
func (r *run) identify() {
	ids := make([]byte, 0, len(r.invs)*seal.InvocationIDSize)
	for i := range r.invs {
		inv := &r.invs[i]
		ids = seal.AppendInvocationID(ids, r.in.Interception, inv.Host, inv.Interceptor, inv.Version)
	}
	all := string(ids)
	for i := range r.invs {
		r.invs[i].ID = all[i*seal.InvocationIDSize : (i+1)*seal.InvocationIDSize]
	}
}

// validate runs the validators of the path at once. All finish, whatever any of them says.
func (r *run) validate(ctx context.Context) {
	r.give(r.seq.validators)
	r.give(r.seq.sinks)
	if len(r.seq.active) == 0 {
		return
	}
	switch {
	case r.result.Denial == nil && r.cancelled(ctx), r.result.Status == schemas.StatusCancelled:
		r.skip(r.seq.active, schemas.SkipCancelled)
		return
	case r.result.Denial != nil:
		return
	}
	if r.expired() {
		r.skip(r.seq.active, schemas.SkipChainExpiry)
		r.judge(true)
		return
	}
	r.invokeAll(ctx)
	if !r.cancelled(ctx) {
		r.judge(r.expired())
	}
}

// give notes that a stage has, or would have, the current payload.
func (r *run) give(s span) {
	for i := s.from; i < s.to; i++ {
		r.given[i] = r.version
	}
}

func (r *run) skip(orders []int, reason schemas.SkipReason) {
	for _, i := range orders {
		r.invs[i].SkipReason = reason
	}
}

// mutate runs the mutators of the path in order. They stand or fall together: a failed one that does not fail open
// ends the run, and no change survives.
func (r *run) mutate(ctx context.Context) {
	for i := r.seq.mutators.from; i < r.seq.mutators.to; i++ {
		r.given[i] = r.version
		m := r.seq.items[i]
		if !m.inPath() {
			continue
		}
		switch {
		case r.result.Denial == nil && r.cancelled(ctx), r.result.Status == schemas.StatusCancelled:
			r.invs[i].SkipReason = schemas.SkipCancelled
			continue
		case r.result.Denial != nil:
			continue
		case r.expired():
			r.invs[i].SkipReason = schemas.SkipChainExpiry
			if !m.entry.FailOpen {
				r.denyExpired(i)
			}
			continue
		}
		r.mutateOne(ctx, i)
	}
}

func (r *run) mutateOne(ctx context.Context, i int) {
	m, a := r.seq.items[i], &r.answers[i]
	limited, cancel := context.WithDeadline(ctx, r.limit(m))
	*a = m.invoke(limited, &r.message, nil)
	cancel()
	a.Fill(&r.invs[i])
	switch {
	case a.Finished():
		if *a.Modified {
			r.version = i
			r.made = append(r.made, Step{Index: i, Payload: a.Payload})
			r.message.replace(a.Payload)
		}
	case r.cancelled(ctx), m.entry.FailOpen:
	case a.State == schemas.StateTimeout && r.expired():
		r.denyExpired(i)
	case a.State == schemas.StateTimeout:
		r.denyTimeout(i, m.entry.TimeoutMS, textTimeout)
	default:
		text := textOf(a)
		r.deny(schemas.StatusMutationFailed, denyMutation, i, reasonOf(text, a), mutationData(m.entry.Name, text))
	}
}

// limit is when an invocation that starts now has to be over.
func (r *run) limit(m *Interceptor) time.Time {
	limit := time.Now().Add(m.timeoutOrDefault())
	if !r.deadline.IsZero() && r.deadline.Before(limit) {
		return r.deadline
	}
	return limit
}

func (r *run) expired() bool { return !r.deadline.IsZero() && !time.Now().Before(r.deadline) }

// cancelled reports whether the caller gave up, and ends the run if so.
func (r *run) cancelled(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	r.result.Status = schemas.StatusCancelled
	r.result.Denial = r.plan.denial("", "", r.in.Phase, textCancelled, nil)
	r.result.Denial.Message = textCancelled
	return true
}

func (r *run) deny(status schemas.Status, kind string, order int, reason string, data jsonx.Value) {
	r.result.Status = status
	r.result.Denial = r.plan.denial(kind, r.seq.items[order].entry.Name, r.in.Phase, reason, data)
}

func (r *run) denyTimeout(order int, timeoutMS int64, reason string) {
	name := r.seq.items[order].entry.Name
	r.deny(schemas.StatusTimeout, denyTimeout, order, reason, timeoutData(name, timeoutMS, r.in.Phase))
}

func (r *run) denyExpired(order int) {
	r.denyTimeout(order, r.plan.config.ChainTimeout.Milliseconds(), textExpired)
}

// reasonOf is for the record only, so it may repeat what came from outside.
func reasonOf(text string, a *Answer) string {
	if a.Error == "" {
		return text
	}
	return text + ": " + a.Error
}
