package chain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestPlanFollowsTheLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{list: descriptor("v", "validation", "")}
		var recorded []string
		var refuse atomic.Pointer[error]
		set := start(t, chain.SetOptions{
			Hosts: []chain.HostSpec{f.host("h")},
			OnPlan: func(_ context.Context, p *chain.Plan) error {
				if err := refuse.Load(); err != nil {
					return *err
				}
				recorded = append(recorded, names(p))
				return nil
			},
		})
		first := set.Current()
		check := func(when, want string, events int) {
			t.Helper()
			retry.Sleep(t.Context(), 30*time.Second) // the bubble's clock: one interval
			synctest.Wait()
			if got := names(set.Current()); got != want || len(recorded) != events {
				t.Errorf("%s: plan is %q after %q, want %q and %d events", when, got, recorded, want, events)
			}
		}
		check("nothing changed", "v", 1)
		f.change(func(f *flaky) { f.list += "," + descriptor("w", "validation", "") })
		check("one more", "v w", 2)
		if names(first) != "v" || len(first.Run(t.Context(), input("x")).Invocations) != 1 {
			t.Error("the plan before changed")
		}
		f.change(func(f *flaky) { f.list = descriptor("w", "validation", "") + "," + descriptor("v", "validation", "") })
		check("another order is the same plan", "v w", 2)
		f.change(func(f *flaky) { f.list = `}` })
		check("garbage keeps the plan", "v w", 2)
		f.change(func(f *flaky) { f.list = descriptor("x", "widget", "") })
		refuse.Store(new(errors.New("journal is full")))
		check("what is not recorded is not in force", "v w", 2)
		refuse.Store(nil)
		check("the next listing tries again", "", 3)
		f.change(func(f *flaky) { f.listErr = &wire.RPCError{Code: -32603, Message: "busy"} })
		check("an error answer keeps the plan", "", 3)
		if n := f.connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestLostServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closed := &flaky{list: descriptor("v", "validation", "")}
		open := &flaky{list: descriptor("w", "validation", `,"failOpen":true`)}
		events := 0
		set := start(t, chain.SetOptions{
			Hosts:  []chain.HostSpec{closed.host("a"), open.host("b")},
			Retry:  retry.Policy{Initial: time.Second, Max: 4 * time.Second, Multiplier: 2, Jitter: -1},
			OnPlan: func(context.Context, *chain.Plan) error { events++; return nil },
		})
		run := func(when, want string) {
			t.Helper()
			synctest.Wait()
			began := time.Now()
			got := set.Current().Run(t.Context(), input("tools/call"))
			state := fmt.Sprint(got.Invocations[0].State, " ", got.Invocations[1].State, " ", got.Status)
			if state != want || time.Since(began) != 0 {
				t.Errorf("%s: %s after %v, want %s at once", when, state, time.Since(began), want)
			}
		}
		run("at start", "finished finished success")
		for _, f := range []*flaky{open, closed} {
			f.change(func(f *flaky) { f.refuse = errors.New("connection refused"); close(f.done) })
		}
		run("both lost", "failed failed validation_failed")
		retry.Sleep(t.Context(), 10*time.Second)
		if n := closed.connections(); n < 4 || n > 6 {
			t.Errorf("%d connections in 10 s, want the pauses 1, 2, 4 and 4 s between them", n)
		}
		closed.change(func(f *flaky) { f.refuse = nil })
		retry.Sleep(t.Context(), 4*time.Second)
		run("one is back", "finished failed success")
		open.change(func(f *flaky) { f.refuse = nil })
		retry.Sleep(t.Context(), 4*time.Second)
		run("both are back", "finished finished success")
		if events != 1 {
			t.Errorf("%d plans, want 1: a loss changes no plan", events)
		}
	})
}

// A real server whose pipes break is connected again, and serves the plan that was in force.
func TestLostPipes(t *testing.T) {
	t.Parallel()
	server := serve(t, noop("v"))
	var mu sync.Mutex
	var theirs []*os.File
	open := overPipes(t, func(r, w *os.File) {
		mu.Lock()
		theirs = append(theirs, r, w)
		mu.Unlock()
		_ = server.ServeStdio(context.Background(), r, w)
	})
	again := make(chan struct{}, 16)
	set := start(t, chain.SetOptions{
		Hosts: []chain.HostSpec{{
			Ref: schemas.HostRef{Host: "h"},
			Connect: func(ctx context.Context) (chain.Conn, error) {
				conn, err := chain.Remote(open, nil)(ctx)
				again <- struct{}{}
				return conn, err
			},
		}},
		Retry: retry.Policy{Initial: time.Millisecond},
	})
	<-again
	plan := set.Current()
	if got := plan.Run(t.Context(), input("tools/call")); got.Denial != nil {
		t.Fatalf("denied: %+v", got.Denial)
	}
	mu.Lock()
	for _, file := range theirs {
		_ = file.Close()
	}
	mu.Unlock()
	<-again
	err := retry.Do(t.Context(), retry.Policy{Initial: time.Millisecond, MaxElapsed: 10 * time.Second}, func(ctx context.Context) error {
		if got := plan.Run(ctx, input("tools/call")); got.Denial != nil {
			return errors.New(got.Denial.Reason)
		}
		return nil
	})
	if err != nil {
		t.Errorf("after the loss: %v", err)
	}
}

func TestPluralInvoke(t *testing.T) {
	t.Parallel()
	server := &plural{list: descriptor("v", "validation", "")}
	plan := planOf(t, chain.Config{}, chain.HostSpec{
		Ref:     schemas.HostRef{Host: "h"},
		Connect: func(context.Context) (chain.Conn, error) { return server, nil },
	})
	for range 3 {
		if got := plan.Run(t.Context(), input("tools/call")); got.Denial != nil {
			t.Fatalf("denied: %+v", got.Denial)
		}
	}
	if server.refused != 1 {
		t.Errorf("the singular was tried %d times, want once", server.refused)
	}
}

type plural struct {
	script
	refused int
}

func (p *plural) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	switch method {
	case "interceptors/invoke":
		return jsonx.Value(`{"valid":true}`), nil
	case interceptor.MethodInvoke:
		p.refused++
	}
	return p.script.Call(ctx, method, params)
}

// A server whose loss nothing announces is found out by the first call that fails, not at the next listing.
func TestUnannouncedLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{list: descriptor("v", "validation", "")}
		set := start(t, chain.SetOptions{
			Hosts: []chain.HostSpec{f.host("h")},
			Retry: retry.Policy{Initial: time.Second, Jitter: -1},
		})
		reset := errors.New("connection reset")
		f.change(func(f *flaky) { f.listErr, f.invokeErr, f.refuse = reset, reset, reset })
		run := func() string {
			got := set.Current().Run(t.Context(), input("tools/call"))
			synctest.Wait()
			if got.Denial == nil {
				return ""
			}
			return got.Denial.Reason
		}
		if reason := run(); !strings.Contains(reason, "connection reset") {
			t.Errorf("the first call says %q", reason)
		}
		if reason := run(); !strings.Contains(reason, chain.ErrLost.Error()) {
			t.Errorf("the second call says %q, want that the server is lost", reason)
		}
		f.change(func(f *flaky) { f.listErr, f.invokeErr, f.refuse = nil, nil, nil })
		retry.Sleep(t.Context(), time.Second)
		synctest.Wait()
		if reason := run(); reason != "" || f.connects != 3 || f.closed != 1 {
			t.Errorf("after a second: %q, %d connections, %d closed", reason, f.connects, f.closed)
		}
	})
}
