package chain_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// A handler that writes into what it was given, against the rules, changes nothing that goes on.
func TestHandlersHaveCopiesOfTheirOwn(t *testing.T) {
	t.Parallel()
	var list []interceptor.Interceptor
	seen := make([]string, 3)
	for i := range seen {
		list = append(list, interceptor.Validator(
			interceptor.Descriptor{Name: fmt.Sprintf("v%d", i), Hooks: interceptor.Both("*")},
			func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
				seen[i] = string(call.Payload) + string(call.Context)
				clear(call.Payload)
				clear(call.Context)
				return interceptor.Pass(), nil
			}))
	}
	plan := planOf(t, chain.Config{}, chain.HostSpec{Ref: schemas.HostRef{Host: "h"}, Connect: chain.Local(serve(t, list...))})
	in := input("tools/call")
	want := string(in.Payload)
	got := plan.Run(t.Context(), in)
	if diff := cmp.Diff(want, string(got.Payload)); diff != "" {
		t.Errorf("what goes on (-want +got):\n%s", diff)
	}
	if seen[1] != seen[0] || seen[2] != seen[0] {
		t.Errorf("the handlers saw %q", seen)
	}
}

// However many validators never look at their context, all are invoked at once and none delays another.
func TestManyHungInterceptorsOfThisProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var list []interceptor.Interceptor
		for i := range 5 {
			list = append(list, interceptor.Validator(
				interceptor.Descriptor{Name: fmt.Sprintf("v%d", i), Hooks: interceptor.Both("*")},
				func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
					if i != 2 {
						<-release
					}
					return interceptor.Pass(), nil
				}))
		}
		server := serve(t, list...)
		host := chain.HostSpec{
			Ref:       schemas.HostRef{Host: "h"},
			Overrides: map[string]chain.Override{"v3": {Timeout: 2 * time.Second}, "v4": {Timeout: 3 * time.Second}},
			Connect:   chain.Local(server),
		}
		start := time.Now()
		got := planOf(t, chain.Config{}, host).Run(t.Context(), input("tools/call"))
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v, want 5s", took)
		}
		for i, want := range []time.Duration{5 * time.Second, 5 * time.Second, 0, 2 * time.Second, 3 * time.Second} {
			inv := got.Invocations[i]
			state := schemas.StateTimeout
			if want == 0 {
				state = schemas.StateFinished
			}
			if inv.State != state || inv.DurationUS != want.Microseconds() {
				t.Errorf("%s: %s after %d µs, want %s after %v", inv.Interceptor, inv.State, inv.DurationUS, state, want)
			}
		}
		close(release)
		if err := server.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
