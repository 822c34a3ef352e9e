package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/internal/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBusy = errors.New("busy")

func TestDoRepeatsUntilSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var pauses []time.Duration
		policy := retry.Policy{
			Initial: time.Second, Max: 4 * time.Second, Multiplier: 2, Jitter: -1,
			Notify: func(_ error, _ int, pause time.Duration) { pauses = append(pauses, pause) },
		}
		err := retry.Do(t.Context(), policy, func(context.Context) error {
			if calls++; calls < 6 {
				return errBusy
			}
			return nil
		})
		if err != nil {
			t.Fatalf("Do returned %v", err)
		}
		got, want := fmt.Sprint(pauses), "[1s 2s 4s 4s 4s]"
		if got != want {
			t.Errorf("pauses are %s, want %s", got, want)
		}
	})
}

func TestDoOutlastsTheLibrarysDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error {
			if time.Since(start) < 48*time.Hour {
				return errBusy
			}
			return nil
		})
		if err != nil {
			t.Errorf("gave up after %v: %v", time.Since(start), err)
		}
	})
}

func TestDoStops(t *testing.T) {
	t.Parallel()
	errStop := errors.New("shutting down")
	cancelled := func(ctx context.Context, after time.Duration) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(after, func() { cancel(errStop) })
		return ctx
	}
	for _, test := range []struct {
		name      string
		ctx       func(context.Context) context.Context
		policy    retry.Policy
		err       error
		wraps     []error
		permanent bool
		calls     int
	}{
		{
			name: "permanent error", err: retry.Permanent(errBusy), wraps: []error{errBusy}, permanent: true, calls: 1,
		},
		{
			name: "permanent error inside another", err: fmt.Errorf("insert: %w", retry.Permanent(errBusy)),
			wraps: []error{errBusy}, permanent: true, calls: 1,
		},
		{
			name: "tries used up", policy: retry.Policy{MaxTries: 3}, err: errBusy,
			wraps: []error{errBusy, retry.ErrExhausted}, calls: 3,
		},
		{
			name: "time used up", policy: retry.Policy{Initial: time.Second, Multiplier: 1, Jitter: -1, MaxElapsed: 5 * time.Second},
			err: errBusy, wraps: []error{errBusy, retry.ErrExhausted}, calls: 6,
		},
		{
			name: "context ends in a pause", ctx: func(ctx context.Context) context.Context { return cancelled(ctx, time.Minute) },
			policy: retry.Policy{Initial: time.Hour, Max: time.Hour}, err: errBusy, wraps: []error{errBusy, errStop}, calls: 1,
		},
		{
			name: "context was done before", ctx: func(ctx context.Context) context.Context {
				ctx, cancel := context.WithCancelCause(ctx)
				cancel(errStop)
				return ctx
			},
			err: errBusy, wraps: []error{errBusy, errStop}, calls: 1,
		},
		{
			name: "delay asked for is beyond the limit", policy: retry.Policy{MaxElapsed: time.Minute},
			err: retry.After(errBusy, time.Hour), wraps: []error{errBusy, retry.ErrExhausted}, calls: 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.ctx != nil {
					ctx = test.ctx(ctx)
				}
				calls := 0
				err := retry.Do(ctx, test.policy, func(context.Context) error { calls++; return test.err })
				for _, want := range test.wraps {
					if !errors.Is(err, want) {
						t.Errorf("error %q does not wrap %q", err, want)
					}
				}
				if got := retry.IsPermanent(err); got != test.permanent {
					t.Errorf("IsPermanent(%v) = %v, want %v", err, got, test.permanent)
				}
				if calls != test.calls {
					t.Errorf("operation was called %d times, want %d", calls, test.calls)
				}
			})
		})
	}
}

func TestAfterSetsTheLeastPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		err := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error {
			if calls++; calls == 1 {
				return retry.After(errBusy, 7*time.Minute)
			}
			return nil
		})
		if got := time.Since(start); err != nil || got != 7*time.Minute {
			t.Errorf("second try came after %v with %v, want 7m0s and no error", got, err)
		}
	})
}

func TestMarksOfNil(t *testing.T) {
	t.Parallel()
	if err := retry.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) = %v", err)
	}
	if err := retry.After(nil, time.Second); err != nil {
		t.Errorf("After(nil) = %v", err)
	}
	if retry.IsPermanent(nil) || retry.IsPermanent(errBusy) {
		t.Error("an unmarked error counts as permanent")
	}
}
