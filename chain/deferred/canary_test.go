package deferred

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
	"uuid"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// A budget bounds the time of invocations, failed tries included; what it skips is recorded, and it fills up again.
func TestWorkerBudget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fail bool
		want []string
	}{
		{"answers", false, []string{"finished 1", "finished 1", "skipped budget", "finished 1"}},
		{"fails", true, []string{"failed 2", "skipped budget", "skipped budget", "failed 2"}}, // of three tries
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				entry := sink
				entry.BudgetMS, entry.TimeoutMS = 1000, 5000
				journal, q := &memory{}, newQueue()
				stop := start(t, entry, q, hostFunc(func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
					time.Sleep(800 * time.Millisecond) // of the bubble
					if tt.fail {
						return nil, errors.New("disk full")
					}
					return recorded(ctx, name, params)
				}), journal, testOptions())
				for range 3 { // one after the other, in one lane
					q.put(newJob(entry, "s", `{}`))
				}
				time.Sleep(20 * time.Second)
				for _, rec := range journal.all() {
					if inv := rec.Event.Invocations[0]; inv.State == schemas.StateSkipped && len(rec.Items) > 0 {
						t.Errorf("a skipped one said something: %s", rec.Items[0].Data)
					}
				}
				time.Sleep(2 * time.Minute)
				q.put(newJob(entry, "s", `{}`))
				time.Sleep(20 * time.Second)
				stop()
				if diff := cmp.Diff(ends(journal), tt.want); diff != "" {
					t.Errorf("results differ (-got +want):\n%s", diff)
				}
				if acked, naked, _ := q.counts(); acked != 4 || naked != 0 {
					t.Errorf("%d acknowledged, %d given back, want all four done", acked, naked)
				}
			})
		})
	}
}

// ends tells how each recorded invocation ended.
func ends(journal *memory) []string {
	var list []string
	for _, rec := range journal.all() {
		switch inv := rec.Event.Invocations[0]; inv.State {
		case schemas.StateSkipped:
			list = append(list, fmt.Sprintf("%s %s", inv.State, inv.SkipReason))
		default:
			list = append(list, fmt.Sprintf("%s %d", inv.State, inv.Attempt))
		}
	}
	return list
}

// A canary from the run of its plan to the result of its deferred work: in the path for one principal, off it for the
// rest, within a budget that a lost source does not renew; what is not in the sample stays skipped.
func TestCanaryThroughManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := interceptor.Validator(interceptor.Descriptor{Name: "v", Hooks: interceptor.OnRequest("tools/call")},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				time.Sleep(2 * time.Second) // of the bubble
				return interceptor.Deny("no"), nil
			})
		server, err := interceptor.New(nil, slow)
		if err != nil {
			t.Fatal(err)
		}
		spec := chain.HostSpec{Ref: schemas.HostRef{Host: "h"}, Overrides: map[string]chain.Override{"v": {
			Enforce: &chain.Enforce{Principals: []string{"eve"}}, Budget: 3 * time.Second,
		}}, Connect: chain.Local(server)}
		set, err := chain.NewSet(chain.SetOptions{Hosts: []chain.HostSpec{spec}})
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		plan := set.Current()
		record, _ := plan.Record()
		plans, jobs, journal := newQueue(planJob("one", `[]`, record.Entries...)), newQueue(), &memory{}
		opts := testOptions()
		opts.MaxPending = 1 // nothing is in hand when the source is lost
		m := NewManager(ManagerOptions{
			Plans: plans, Recorder: journal, Worker: opts,
			Sources: func(context.Context, schemas.PlanEntry) (Source, error) { return &short{Source: jobs}, nil },
			Connect: func(ctx context.Context, _ schemas.HostRef) (chain.Conn, error) { return chain.Local(server)(ctx) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()

		call := func(principal string) *chain.Result {
			in := chain.Input{
				Interception: uuid.NewV7(), Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending,
				Payload: jsonx.Value(`{"name":"x"}`),
			}
			in.Context.Principal = chain.Principal{Type: "user", ID: principal}
			res := plan.Run(t.Context(), in)
			jobs.put(jobOf(&in, &res))
			return &res
		}
		if res := call("eve"); res.Denial == nil {
			t.Error("eve was not blocked")
		}
		for range 4 {
			if res := call("bob"); res.Denial != nil {
				t.Errorf("bob was blocked: %v", res.Denial)
			}
		}
		time.Sleep(30 * time.Second)
		if diff := cmp.Diff(ends(journal), []string{"finished 1", "finished 1", "skipped budget", "skipped budget"}); diff != "" {
			t.Errorf("results differ (-got +want):\n%s", diff)
		}
		for _, rec := range journal.all() {
			inv := rec.Event.Invocations[0]
			if inv.Mode != schemas.ModeAudit || inv.ModeReason != "canary_rest" {
				t.Errorf("mode %s for %q, want audit for canary_rest", inv.Mode, inv.ModeReason)
			}
			if inv.State == schemas.StateFinished && (inv.Valid == nil || *inv.Valid) {
				t.Error("what would have blocked is not recorded")
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if err := set.Run(ctx); err != nil {
			t.Errorf("set: %v", err)
		}
	})
}

// short is a source that is lost after two jobs.
type short struct {
	Source
	taken int
}

func (s *short) Next(ctx context.Context) (Job, error) {
	if s.taken++; s.taken > 2 {
		return Job{}, io.EOF
	}
	return s.Source.Next(ctx)
}

// jobOf is a run as deferred work gets it.
func jobOf(in *chain.Input, res *chain.Result) Job {
	item := schemas.EntryItem{
		Header: schemas.OpenHeader{Role: schemas.RoleBefore, Salt: seal.NewSalt(), Keep: schemas.KeepFull}, Data: in.Payload,
	}
	return Job{
		Event: schemas.Event{
			ID: in.Interception, Kind: schemas.KindRequest, Correlation: &schemas.Correlation{},
			Operation:   &schemas.Operation{Event: in.Event, Phase: in.Phase, Direction: in.Direction},
			Invocations: res.Invocations,
			Open: []schemas.OpenRef{{
				Role: schemas.RoleBefore, Bytes: len(item.Data), Keep: schemas.KeepFull,
				Commitment: seal.Commit(seal.DomainTrue, item.Header.Salt, item.Data),
			}},
		},
		Items: func(context.Context) ([]schemas.EntryItem, error) { return []schemas.EntryItem{item}, nil },
	}
}
