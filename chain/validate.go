package chain

import (
	"context"
	"sync"

	"github.com/chaintrail/chaintrail/schemas"
)

// invokeAll invokes the validators of the path at once, the last one on this goroutine, and waits for all.
func (r *run) invokeAll(ctx context.Context) {
	active := r.seq.active
	var others sync.WaitGroup
	//nolint:contextcheck // every one made below inherits from ctx
	var limited context.Context // shared by those that start together and have equally long
	var timeoutMS int64
	for n, i := range active {
		m := r.seq.items[i]
		if limited == nil || timeoutMS != m.entry.TimeoutMS {
			var cancel context.CancelFunc
			limited, cancel = context.WithDeadline(ctx, r.limit(m)) //nolint:fatcontext // made of ctx, not of the one before
			defer cancel()                                          // not before the last of them has finished
			timeoutMS = m.entry.TimeoutMS
		}
		r.message.body(m.entry.Envelope) // made here, so that the goroutines only read it
		others.Add(1)
		if n == len(active)-1 {
			r.invokeOne(limited, i, &others)
			break
		}
		go r.invokeOne(limited, i, &others) // exits with its deadline
	}
	others.Wait()
	for _, i := range active {
		r.answers[i].Fill(&r.invs[i])
	}
}

func (r *run) invokeOne(ctx context.Context, order int, done *sync.WaitGroup) {
	defer done.Done()
	r.answers[order] = r.seq.items[order].invoke(ctx, &r.message, nil)
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
