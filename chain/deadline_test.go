package chain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// slow is a server whose interceptors take as long as their name's table says; zero: they answer at once.
func slow(list string, takes map[string]time.Duration) *script {
	s := &script{list: list}
	s.invoke = func(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
		name, _ := wire.MemberString(params, "name")
		if d := takes[name]; d > 0 {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if name[0] == 'v' {
			return jsonx.Value(`{"valid":true}`), nil
		}
		return jsonx.Value(`{"modified":true,"payload":{"l":"` + name + `"}}`), nil
	}
	return s
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	open := `,"failOpen":true`
	for _, test := range []struct {
		name  string
		list  string
		takes map[string]time.Duration
		chain time.Duration
		want  string
		after time.Duration
		deny  string
	}{
		{
			name: "own deadline of a validator", list: descriptor("v", "validation", "") + "," + descriptor("v2", "validation", open),
			takes: map[string]time.Duration{"v": hour}, chain: hour, after: 5 * time.Second,
			want: "v=timeout:payload.before> v2=finished:payload.before> => timeout {} false",
			deny: `timeout -32000 {"interceptor":"v","timeoutMs":5000,"phase":"request","reason":"timeout"}`,
		},
		{
			name: "own deadline, fails open", list: descriptor("v", "validation", open),
			takes: map[string]time.Duration{"v": hour}, chain: hour, after: 5 * time.Second,
			want: "v=timeout:payload.before> => success {} false",
		},
		{
			name: "own deadline of a mutator", list: descriptor("m", "mutation", "") + "," + descriptor("v", "validation", ""),
			takes: map[string]time.Duration{"m": hour}, chain: hour, after: 5 * time.Second,
			want: "m=timeout:payload.before> v=skipped(aborted):> => timeout {} false",
			deny: `timeout -32000 {"interceptor":"m","timeoutMs":5000,"phase":"request","reason":"timeout"}`,
		},
		{
			name: "deadline of the chain", list: descriptor("m", "mutation", open) + "," + descriptor("n", "mutation", "") + "," + descriptor("v", "validation", ""),
			takes: map[string]time.Duration{"m": hour}, chain: 2 * time.Second, after: 2 * time.Second,
			want: "m=timeout:payload.before> n=skipped(chain_limit):> v=skipped(aborted):> => timeout {} false",
			deny: `timeout -32000 {"interceptor":"n","timeoutMs":2000,"phase":"request","reason":"timeout"}`,
		},
		{
			name: "deadline of the chain, each fails open", list: descriptor("m", "mutation", open) + "," + descriptor("n", "mutation", open) + "," + descriptor("v", "validation", open),
			takes: map[string]time.Duration{"m": hour}, chain: 2 * time.Second, after: 2 * time.Second,
			want: "m=timeout:payload.before> n=skipped(chain_limit):> v=skipped(chain_limit):> => success {} false",
		},
		{
			name: "deadline of the chain, a validator not yet invoked", list: descriptor("m", "mutation", open) + "," + descriptor("v", "validation", ""),
			takes: map[string]time.Duration{"m": hour}, chain: 2 * time.Second, after: 2 * time.Second,
			want: "m=timeout:payload.before> v=skipped(chain_limit):> => timeout {} false",
			deny: `timeout -32000 {"interceptor":"v","timeoutMs":2000,"phase":"request","reason":"timeout"}`,
		},
		{
			name: "the time of all adds up", list: descriptor("m", "mutation", "") + "," + descriptor("n", "mutation", ""),
			takes: map[string]time.Duration{"m": 3 * time.Second, "n": 3 * time.Second}, chain: 5 * time.Second, after: 5 * time.Second,
			want: "m=finished:payload.before>payload.step n=timeout:payload.step> step.0={\"l\":\"m\"} => timeout {} false",
			deny: `timeout -32000 {"interceptor":"n","timeoutMs":5000,"phase":"request","reason":"timeout"}`,
		},
		{
			name: "validators run at once", list: descriptor("v1", "validation", "") + "," + descriptor("v2", "validation", "") + "," + descriptor("v3", "validation", ""),
			takes: map[string]time.Duration{"v1": 3 * time.Second, "v2": 2 * time.Second, "v3": time.Second}, after: 3 * time.Second,
			want: "v1=finished:payload.before> v2=finished:payload.before> v3=finished:payload.before> => success {} false",
		},
		{
			name: "no deadline of the chain", list: descriptor("m", "mutation", "") + "," + descriptor("n", "mutation", ""),
			takes: map[string]time.Duration{"m": 4 * time.Second, "n": 4 * time.Second}, chain: -1, after: 8 * time.Second,
			want: "m=finished:payload.before> n=finished:>payload.after => success {\"l\":\"n\"} true",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := slow(test.list, test.takes)
				plan := planOf(t, chain.Config{ChainTimeout: test.chain}, s.host())
				in := input("tools/call")
				in.Payload = jsonx.Value(`{}`)
				start := time.Now()
				got := plan.Run(t.Context(), in)
				if diff := cmp.Diff(test.want, shape(&got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if took := time.Since(start); took != test.after || got.Duration != took {
					t.Errorf("took %v, says %v, want %v", took, got.Duration, test.after)
				}
				deny := ""
				if d := got.Denial; d != nil {
					deny = judge(&got).Denied + " " + string(d.Data)
				}
				if deny != test.deny {
					t.Errorf("denial is %s, want %s", deny, test.deny)
				}
			})
		})
	}
}

func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	list := descriptor("m", "mutation", `,"failOpen":true`) + "," + descriptor("n", "mutation", "") + "," +
		descriptor("v", "validation", `,"failOpen":true`) + "," + descriptor("s", "sink", "")
	for direction, want := range map[schemas.Direction]string{
		schemas.Sending: "m=failed:payload.before> n=skipped(cancelled):> v=skipped(cancelled):> s=deferred:payload.before> " +
			"=> cancelled {} false",
		schemas.Receiving: "v=failed:payload.before> s=deferred:payload.before> m=skipped(cancelled):> n=skipped(cancelled):> " +
			"=> cancelled {} false",
	} {
		t.Run(string(direction), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := slow(list, map[string]time.Duration{"m": time.Hour, "v": time.Hour})
				plan := planOf(t, chain.Config{}, s.host())
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errors.New("the caller closed the stream")) })
				in := input("tools/call")
				in.Payload, in.Direction = jsonx.Value(`{}`), direction
				start := time.Now()
				got := plan.Run(ctx, in)
				if diff := cmp.Diff(want, shape(&got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if got.Denial == nil || got.Denial.Interceptor != "" {
					t.Errorf("denial is %+v, want one of nobody", got.Denial)
				}
				if took := time.Since(start); took != time.Second {
					t.Errorf("took %v, want 1s", took)
				}
			})
		})
	}
}

func TestTimeoutSpellings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code int
		data string
		want schemas.InvocationState
	}{
		{-32000, ``, schemas.StateTimeout},
		{-32000, `{"interceptor":"v","timeoutMs":10,"phase":"request"}`, schemas.StateTimeout},
		{-32603, `{"interceptor":"v","reason":"timeout"}`, schemas.StateTimeout},
		{-32603, `{"interceptor":"v","reason":"boom","timeoutMs":1}`, schemas.StateFailed},
		{-32603, ``, schemas.StateFailed},
		{-32000, `{"why":"server busy"}`, schemas.StateFailed},
		{-32602, `{"reason":"timeout"}`, schemas.StateFailed},
	} {
		s := &script{list: descriptor("v", "validation", ""), invoke: func(context.Context, jsonx.Value) (jsonx.Value, error) {
			return nil, &wire.RPCError{Code: test.code, Message: "m", Data: jsonx.Value(test.data)}
		}}
		got := planOf(t, chain.Config{}, s.host()).Run(t.Context(), input("tools/call"))
		if inv := got.Invocations[0]; inv.State != test.want || inv.ErrorCode != test.code || got.Denial == nil {
			t.Errorf("%d %s is %s with code %d, denial %v; want %s", test.code, test.data, inv.State, inv.ErrorCode, got.Denial, test.want)
		}
	}
}

// An interceptor of this process that never looks at its context delays nobody beyond its deadline.
func TestHungInterceptorOfThisProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		server := serve(t, interceptor.Validator(interceptor.Descriptor{Name: "v", Hooks: interceptor.Both("*")},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				<-release
				return interceptor.Verdict{Valid: true}, nil
			}))
		plan := planOf(t, chain.Config{}, chain.HostSpec{
			Ref: schemas.HostRef{Host: "h"}, Connect: chain.Local(server),
		})
		start := time.Now()
		got := plan.Run(t.Context(), input("tools/call"))
		if took := time.Since(start); took != 5*time.Second || got.Invocations[0].State != schemas.StateTimeout || got.Denial == nil {
			t.Errorf("after %v: %s, want a timeout after 5s", took, shape(&got))
		}
		close(release)
		if err := server.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
