package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Defaults of a [Policy] whose fields are zero.
const (
	DefaultInitial    = 100 * time.Millisecond
	DefaultMax        = 30 * time.Second
	DefaultMultiplier = 1.5
	DefaultJitter     = 0.5
)

// ErrExhausted is returned, joined with the last error of the operation, when MaxElapsed or MaxTries of the policy is
// used up. The operation may be tried again later.
var ErrExhausted = errors.New("retries are used up")

// Policy says how often and for how long an operation is repeated. The zero value repeats until the context ends,
// with pauses that grow from DefaultInitial to DefaultMax. A Policy may be used by several goroutines at once.
type Policy struct {
	// Initial is the mean first pause; zero means DefaultInitial.
	Initial time.Duration
	// Max bounds the mean pause; zero means DefaultMax. A pause asked for by [After] may be longer.
	Max time.Duration
	// Multiplier makes each pause longer than the one before; below 1 means DefaultMultiplier.
	Multiplier float64
	// Jitter spreads each pause over ± this fraction of it; zero means DefaultJitter, negative means none.
	Jitter float64
	// MaxElapsed ends the repetition when the next try would begin later than this after the first; zero means never.
	MaxElapsed time.Duration
	// MaxTries ends the repetition after that many calls; zero means never.
	MaxTries int
	// Notify, when set, is called in the goroutine of Do before each pause with the error of the try, the number of
	// tries so far and the length of the pause.
	Notify func(err error, tries int, pause time.Duration)
}

// Do calls op until it returns nil, an error marked by [Permanent], until ctx is done or the policy is used up.
//
// op is always called at least once, even when ctx is already done, so that its error is known. The returned error
// wraps the last error of op; when ctx ended it wraps context.Cause(ctx) too, when the policy ended [ErrExhausted].
// A permanent error comes back with its mark, so that [IsPermanent] holds for the caller.
func Do(ctx context.Context, policy Policy, op func(context.Context) error) error {
	next := policy.schedule()
	start := time.Now()
	for tries := 1; ; tries++ {
		err := op(ctx)
		if err == nil {
			return nil
		}
		if IsPermanent(err) {
			return err
		}
		if ctx.Err() != nil {
			return stopped(context.Cause(ctx), err, tries)
		}
		pause := max(next.NextBackOff(), wanted(err))
		elapsed := time.Since(start) + pause
		if (policy.MaxTries > 0 && tries >= policy.MaxTries) || (policy.MaxElapsed > 0 && elapsed > policy.MaxElapsed) {
			return stopped(ErrExhausted, err, tries)
		}
		if policy.Notify != nil {
			policy.Notify(err, tries, pause)
		}
		if !Sleep(ctx, pause) {
			return stopped(context.Cause(ctx), err, tries)
		}
	}
}

// Sleep waits for d or until ctx is done, and reports whether it waited for the whole of d.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p Policy) schedule() backoff.BackOff {
	initial, longest := p.Initial, p.Max
	if initial <= 0 {
		initial = DefaultInitial
	}
	if longest <= 0 {
		longest = DefaultMax
	}
	multiplier, jitter := p.Multiplier, p.Jitter
	if !(multiplier >= 1) { // also for NaN
		multiplier = DefaultMultiplier
	}
	switch {
	case jitter < 0:
		jitter = 0
	case jitter == 0 || !(jitter <= 1):
		jitter = DefaultJitter
	}
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(initial, longest)),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(multiplier),
		backoff.WithRandomizationFactor(jitter),
		backoff.WithMaxElapsedTime(0), // the library's own default would give up after fifteen minutes
	)
}

// stopped joins why the repetition ended with what the last try said; the last error comes first because it is what
// an operator has to act on.
func stopped(reason, last error, tries int) error {
	if errors.Is(last, reason) {
		return fmt.Errorf("after %d tries: %w", tries, last)
	}
	return fmt.Errorf("after %d tries: %w (%w)", tries, last, reason)
}
