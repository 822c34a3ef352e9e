package chain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// TestBreaker: what does not answer is not asked any more, is probed with growing pauses, and is asked again when it
// answers; fail_open decides meanwhile.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for _, failOpen := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fails := true
			more := ""
			if failOpen {
				more = `,"failOpen":true`
			}
			s := &script{list: descriptor("v", "validation", more), invoke: func(ctx context.Context, _ jsonx.Value) (jsonx.Value, error) {
				if fails {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return jsonx.Value(`{"valid":true}`), nil
			}}
			breakers := chain.NewBreakers(chain.BreakerConfig{Failures: 3, Pause: time.Second, MaxPause: 3 * time.Second})
			plan := planOf(t, chain.Config{Breakers: breakers}, s.host())
			run := func() chain.Result {
				return plan.Run(t.Context(), chain.Input{Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Payload: jsonx.Value(`{}`)})
			}
			calls := func() int { return len(s.seen("v")) }
			for range 3 {
				run()
			}
			if got := calls(); got != 3 || !breakers.States()[0].Open {
				t.Fatalf("%d calls, states %+v", got, breakers.States())
			}
			began := time.Now()
			res := run()
			if calls() != 3 || time.Since(began) != 0 {
				t.Errorf("an open breaker made a call, or took %s", time.Since(began))
			}
			if inv := res.Invocations[0]; inv.State != schemas.StateFailed || !strings.Contains(res.Details[0].Error, "breaker_open") {
				t.Errorf("invocation %+v, details %+v", inv, res.Details)
			}
			if blocked := res.Denial != nil; blocked == failOpen {
				t.Errorf("fail open %t: blocked %t", failOpen, blocked)
			}
			for i, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
				time.Sleep(pause - time.Millisecond)
				if run(); calls() != 3+i {
					t.Fatalf("probe %d came early", i)
				}
				time.Sleep(time.Millisecond)
				if run(); calls() != 4+i {
					t.Fatalf("probe %d did not come after %s", i, pause)
				}
			}
			fails = false
			time.Sleep(3 * time.Second)
			for range 2 {
				if res := run(); res.Denial != nil {
					t.Errorf("it answers, and the run is denied: %+v", res.Denial)
				}
			}
			if got := breakers.States()[0]; got.Open || got.Failures != 0 || got.Opened != 1 || calls() != 9 {
				t.Errorf("state %+v after %d calls", got, calls())
			}
		})
	}
}

// TestBreakerSigns: only what tells of an interceptor that is not there counts against it.
func TestBreakerSigns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		reply func() (jsonx.Value, error)
		opens bool
	}{
		{"an answered error", func() (jsonx.Value, error) {
			return nil, &wire.RPCError{Code: wire.CodeInternal, Message: "cannot read this payload"}
		}, false},
		{"a lost server", func() (jsonx.Value, error) { return nil, chain.ErrLost }, false},
		{"a panic", func() (jsonx.Value, error) { panic("payload") }, false},
		{"a denial", func() (jsonx.Value, error) { return jsonx.Value(`{"valid":false,"severity":"error"}`), nil }, false},
		{"an answered timeout", func() (jsonx.Value, error) { return nil, &wire.RPCError{Code: wire.CodeTimeout, Message: "timeout"} }, true},
		{"a broken connection", func() (jsonx.Value, error) { return nil, errors.New("broken pipe") }, true},
		{"garbage", func() (jsonx.Value, error) { return jsonx.Value(`[]`), nil }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &script{
				list:   descriptor("v", "validation", ""),
				invoke: func(context.Context, jsonx.Value) (jsonx.Value, error) { return c.reply() },
			}
			breakers := chain.NewBreakers(chain.BreakerConfig{Failures: 2})
			plan := planOf(t, chain.Config{Breakers: breakers}, s.host())
			for range 4 {
				plan.Run(t.Context(), chain.Input{Event: "tools/call", Phase: schemas.PhaseRequest, Payload: jsonx.Value(`{}`)})
			}
			if got := breakers.States()[0].Open; got != c.opens {
				t.Errorf("open %t, want %t", got, c.opens)
			}
		})
	}
}
