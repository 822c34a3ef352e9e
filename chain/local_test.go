package chain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// case is interceptors and the messages that go through them.
type localCase struct {
	name  string
	list  []interceptor.Interceptor
	steps []chain.Input
}

// localCases are the fixtures, and what they lack.
func localCases(t *testing.T) []localCase {
	t.Helper()
	fixtures, err := chaintest.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	var cases []localCase
	for i := range fixtures {
		f := &fixtures[i]
		c := localCase{name: f.ID}
		if c.list, err = f.Bind(); err != nil {
			t.Fatal(err)
		}
		for _, step := range f.Steps {
			if step.Op == "apply" {
				for _, direction := range []schemas.Direction{schemas.Sending, schemas.Receiving} {
					c.steps = append(c.steps, chain.Input{Event: step.Event, Phase: step.Phase, Direction: direction, Payload: step.Payload})
				}
			}
		}
		cases = append(cases, c)
	}
	all := interceptor.Both("*")
	say := func(v interceptor.Verdict) interceptor.ValidatorFunc {
		return func(context.Context, *interceptor.Call) (interceptor.Verdict, error) { return v, nil }
	}
	own := localCase{name: "own", list: []interceptor.Interceptor{
		interceptor.Validator(interceptor.Descriptor{Name: "warn", Hooks: all}, say(interceptor.Verdict{
			Severity: schemas.SeverityWarn, Messages: []interceptor.Message{{Path: "a.b", Message: "<ö>", Severity: schemas.SeverityInfo}},
			Suggestions: []interceptor.Suggestion{{Path: "a", Value: jsonx.Value(`90071992547409931234`)}}, Info: jsonx.Value(`{"x":[1,2]}`),
		})),
		interceptor.Validator(interceptor.Descriptor{Name: "deny", Hooks: interceptor.OnRequest("deny/*")}, say(interceptor.Deny("no"))),
		interceptor.Validator(interceptor.Descriptor{Name: "open", FailOpen: true, Hooks: all},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				return interceptor.Pass(), errors.New("broken")
			}),
		interceptor.Validator(interceptor.Descriptor{Name: "bang", Hooks: interceptor.OnRequest("bang")},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) { panic("boom") }),
		interceptor.Validator(interceptor.Descriptor{Name: "slow", Hooks: interceptor.OnRequest("slow")},
			func(ctx context.Context, _ *interceptor.Call) (interceptor.Verdict, error) {
				<-ctx.Done()
				return interceptor.Pass(), ctx.Err()
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "wrap", Priority: interceptor.Priority{Request: 3, Response: -3}, Hooks: all},
			func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
				return interceptor.Mutation{Modified: true, Payload: jsonx.Value(`{"in":` + string(call.Payload) + `}`), Info: jsonx.Value(`{"n":1}`)}, nil
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "shadow", Mode: schemas.ModeAudit, Hooks: all},
			func(context.Context, *interceptor.Call) (interceptor.Mutation, error) {
				return interceptor.Mutation{Modified: true, Payload: jsonx.Value(`{}`)}, nil
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "same", Hooks: all},
			func(context.Context, *interceptor.Call) (interceptor.Mutation, error) {
				return interceptor.Unmodified(), nil
			}),
		interceptor.Sink(interceptor.Descriptor{Name: "sink", Hooks: all},
			func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				return interceptor.Receipt{Recorded: true, Metrics: map[string]float64{"bytes": 1.5}}, nil
			}),
	}}
	for _, event := range []string{"tools/call", "deny/x", "bang", "slow"} {
		for _, phase := range []schemas.Phase{schemas.PhaseRequest, schemas.PhaseResponse} {
			for _, direction := range []schemas.Direction{schemas.Sending, schemas.Receiving} {
				own.steps = append(own.steps, chain.Input{
					Event: event, Phase: phase, Direction: direction, Payload: jsonx.Value(`{"n":12345678901234567890, "<":"é"}`),
				})
			}
		}
	}
	return append(cases, own)
}

// What runs in this process and what runs behind a go-sdk session give the same results, but for the time it takes.
func TestLocalChainIsTheRemotePath(t *testing.T) {
	t.Parallel()
	cases := localCases(t)
	if len(cases) != 25 {
		t.Fatalf("%d cases, want the 24 fixtures and our own", len(cases))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, envelope := range []bool{false, true} {
				var here, there results
				local, err := chain.NewLocalChain(&chain.LocalOptions{
					Timeout: 300 * time.Millisecond, Envelope: envelope, Background: &chain.BackgroundOptions{OnResult: here.add},
				}, c.list...)
				if err != nil {
					t.Fatal(err)
				}
				host := hostOf(chain.LocalHost, chain.Session(sessions(t, serve(t, c.list...), "2025-11-25")["sdk in memory"]))
				host.Timeout, host.Envelope = 300*time.Millisecond, envelope
				remote, background := runnerOf(t, &chain.BackgroundOptions{OnResult: there.add}, host)
				for _, in := range c.steps {
					in.Interception = uuid.NewV7()
					got, want := local.Run(t.Context(), in), remote.Run(t.Context(), in)
					eitherSide(&got)
					eitherSide(&want)
					if diff := cmp.Diff(want, got, sameButTime()...); diff != "" {
						t.Errorf("%s %s %s, envelope %t (-session +local):\n%s", in.Event, in.Phase, in.Direction, envelope, diff)
					}
				}
				closeSoon(t, background)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := local.Close(ctx); err != nil {
					t.Error(err)
				}
				byID := func(a, b chain.DeferredResult) int { return strings.Compare(a.Invocation.ID, b.Invocation.ID) }
				slices.SortFunc(here.list, byID)
				slices.SortFunc(there.list, byID)
				if diff := cmp.Diff(there.list, here.list, sameButTime()...); diff != "" {
					t.Errorf("deferred, envelope %t (-session +local):\n%s", envelope, diff)
				}
			}
		})
	}
}

// eitherSide takes out who noticed a timeout first, the server or this side: both have the same deadline.
func eitherSide(r *chain.Result) {
	for i := range r.Invocations {
		if r.Invocations[i].State != schemas.StateTimeout {
			continue
		}
		r.Invocations[i].ErrorCode = 0
		for j := range r.Details {
			if r.Details[j].Order == r.Invocations[i].Order {
				r.Details[j].Error = ""
			}
		}
	}
}

func sameButTime() []cmp.Option {
	return []cmp.Option{
		cmpopts.IgnoreFields(chain.Result{}, "Duration"), cmpopts.IgnoreFields(schemas.Invocation{}, "DurationUS"),
		cmpopts.IgnoreFields(chain.Answer{}, "Duration"),
		cmp.Transformer("compact", func(v jsonx.Value) string { // the SDK takes white space out
			v = v.Clone()
			if v == nil {
				return "absent"
			}
			if err := v.Compact(); err != nil {
				return err.Error()
			}
			return string(v)
		}),
	}
}
