package chain

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/chaintrail/chaintrail/schemas"
)

// validators is the state of the validators that run at once.
type validators struct {
	next   atomic.Int32 // place in sequence.active of the next one to invoke
	shared int64        // timeout of those that share a context, in milliseconds
	others sync.WaitGroup
}

// invokeAll invokes the validators of the path at once, and waits for all. One that answers right away leaves the next
// one to the same goroutine, because to wake another processor costs more than it does; as long as one does not
// answer, the others go on.
func (r *run) invokeAll(ctx context.Context) {
	first := r.seq.items[r.seq.active[0]]
	r.crew.shared = first.entry.TimeoutMS
	limited, cancel := context.WithDeadline(ctx, r.limit(first))
	defer cancel() // not before the last of them has finished
	for _, i := range r.seq.active {
		r.message.prepare(r.seq.items[i]) // made here, so that the goroutines only read it
	}
	r.work(ctx, limited)
	r.crew.others.Wait()
	for _, i := range r.seq.active {
		r.answers[i].Fill(&r.invs[i])
	}
}

// work invokes validators one by one while any is left. The first one it takes has it call for help: the helper runs
// as soon as this goroutine waits or another processor is free, takes the next one, and calls for help likewise.
func (r *run) work(ctx, limited context.Context) {
	called := false
	for {
		n := int(r.crew.next.Add(1))
		if n > len(r.seq.active) {
			return
		}
		if n < len(r.seq.active) && !called {
			called = true
			r.crew.others.Go(func() { r.work(ctx, limited) }) // exits with the deadlines of what it invokes
		}
		r.invokeOne(ctx, limited, r.seq.active[n-1])
	}
}

// invokeOne invokes a validator within the limit that it shares, or its own.
func (r *run) invokeOne(ctx, limited context.Context, order int) {
	m := r.seq.items[order]
	if m.entry.TimeoutMS != r.crew.shared {
		own, cancel := context.WithDeadline(ctx, r.limit(m))
		defer cancel()
		limited = own
	}
	r.answers[order] = m.invoke(limited, &r.message, nil)
}

// judge decides over what the validators said. A verdict counts before a failure, so that the caller hears the reason
// that does not depend on timing; among equals the first by plan order names the denial.
func (r *run) judge(expired bool) {
	first, firstVerdict := -1, -1
	var errs validationErrors
	for _, i := range r.seq.active {
		m, a := r.seq.items[i], &r.answers[i]
		r.result.Errors += a.Errors
		r.result.Warnings += a.Warnings
		r.result.Infos += a.Infos
		switch {
		case a.Blocks:
			if firstVerdict < 0 {
				firstVerdict = i
			}
		case a.Finished() || m.entry.FailOpen:
			continue
		}
		if first < 0 {
			first = i
		}
		errs.addAnswer(m.entry.Name, a)
	}
	switch {
	case firstVerdict >= 0:
		errs.reason = "" // the reason is that of the one who is named
		var named validationErrors
		named.addAnswer(r.seq.items[firstVerdict].entry.Name, &r.answers[firstVerdict])
		r.deny(schemas.StatusValidationFailed, denyValidation, firstVerdict, named.reason, errs.data())
	case first < 0:
	case r.ranOut(first, expired):
		if expired {
			r.denyExpired(first)
		} else {
			r.denyTimeout(first, r.seq.items[first].entry.TimeoutMS, textTimeout)
		}
	default:
		a := &r.answers[first]
		r.deny(schemas.StatusValidationFailed, denyValidation, first, reasonOf(textOf(a), a), errs.data())
	}
}

// ranOut reports whether an interceptor failed for want of time.
func (r *run) ranOut(order int, expired bool) bool {
	return r.answers[order].State == schemas.StateTimeout ||
		(expired && r.invs[order].SkipReason == schemas.SkipChainExpiry)
}
