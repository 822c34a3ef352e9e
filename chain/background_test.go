package chain_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"uuid"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// results collects what a background reports.
type results struct {
	mu   sync.Mutex
	list []chain.DeferredResult
}

func (r *results) add(_ context.Context, result *chain.DeferredResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *result)
}

// texts tells of each result, those of one interceptor in their order.
func (r *results) texts(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, one := range r.list {
		if one.Invocation.Interceptor == name {
			list = append(list, strings.TrimSpace(string(one.Invocation.State)+" "+string(one.Invocation.SkipReason)))
		}
	}
	return strings.Join(list, ", ")
}

func runnerOf(tb testing.TB, options *chain.BackgroundOptions, hosts ...chain.HostSpec) (*chain.Runner, *chain.Background) {
	tb.Helper()
	plan := planOf(tb, chain.Config{}, hosts...)
	background := chain.NewBackground(options)
	return chain.NewRunner(func() *chain.Plan { return plan }, background), background
}

func closeSoon(tb testing.TB, background *chain.Background) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := background.Close(ctx); err != nil {
		tb.Errorf("Close: %v", err)
	}
}

func TestDeferredWorkIsDoneInTheBackground(t *testing.T) {
	t.Parallel()
	s := &script{
		list: strings.Join([]string{
			descriptor("mut", "mutation", ""), descriptor("deny", "validation", ""), descriptor("sink", "sink", ""),
			descriptor("audit", "mutation", `,"mode":"audit","priorityHint":-1`), descriptor("bad", "sink", ""), descriptor("bang", "validation", `,"mode":"audit"`),
		}, ","),
		invoke: answers(map[string]string{
			"mut": `{"modified":true,"payload":{"v":2}}`, "deny": `{"valid":false,"severity":"error"}`, "sink": `{"recorded":true}`,
			"audit": `{"modified":true,"payload":{"v":9}}`, "bad": `{"recorded":7}`, "bang": "panic",
		}),
	}
	var got results
	runner, background := runnerOf(t, &chain.BackgroundOptions{OnResult: got.add}, s.host())
	in := input("tools/call")
	in.Payload = jsonx.Value(`{"v":1}`)
	in.Interception = uuid.NewV7()
	if res := runner.Run(t.Context(), in); res.Status != schemas.StatusValidationFailed || string(res.Payload) != `{"v":1}` {
		t.Errorf("the run ends with %s and payload %s", res.Status, res.Payload)
	}
	closeSoon(t, background)
	for name, want := range map[string]string{"sink": "finished", "audit": "finished", "bad": "malformed", "bang": "failed"} {
		if state := got.texts(name); state != want {
			t.Errorf("%s ended as %q, want %q", name, state, want)
		}
	}
	want := chain.BackgroundStats{Submitted: 4, Finished: 2, Failed: 2}
	if diff := cmp.Diff(want, background.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"sink": `{"v":2}`, "audit": `{"v":1}`} { // each what its stage had, of a denied message too
		calls := s.seen(name)
		if len(calls) != 1 {
			t.Errorf("%s was invoked %d times", name, len(calls))
			continue
		}
		payload, _ := jsonx.Lookup(calls[0], "payload")
		meta, _ := jsonx.Lookup(calls[0], "_meta")
		id, _ := wire.MemberString(meta, "io.chaintrail/invocationId")
		if string(payload) != want || len(id) != 32 {
			t.Errorf("%s was given %s with _meta %s, want payload %s and an id", name, payload, meta, want)
		}
	}
	for i := range got.list {
		one := &got.list[i]
		if one.Invocation.Interceptor == "audit" && string(one.Answer.Payload) != `{"v":9}` {
			t.Errorf("the audit mutator would have made %s", one.Answer.Payload)
		}
		if one.Interception != in.Interception || one.Event != "tools/call" || one.Phase != schemas.PhaseRequest {
			t.Errorf("a result does not say what it is of: %+v", one)
		}
	}
}

// A sink that hangs holds up neither the run nor another sink; what is over its bound is dropped and counted.
func TestBackgroundIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			list: descriptor("hang", "sink", "") + "," + descriptor("quick", "sink", ""),
			invoke: func(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
				if name, _ := wire.MemberString(params, "name"); name == "hang" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return jsonx.Value(`{"recorded":true}`), nil
			},
		}
		var got results
		runner, background := runnerOf(t, &chain.BackgroundOptions{MaxPending: 3, OnResult: got.add}, s.host())
		began := time.Now()
		for range 10 {
			runner.Run(t.Context(), input("tools/call"))
			synctest.Wait()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a hanging sink held the runs up for %v", took)
		}
		want := chain.BackgroundStats{Submitted: 13, Finished: 10, Dropped: 7, Pending: 3}
		if diff := cmp.Diff(want, background.Stats()); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := background.Close(ctx)
		if took := time.Since(began); took != time.Second || !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "3 ") {
			t.Errorf("Close: %v after %v, want that 3 were lost after 1s", err, took)
		}
		if p := background.Stats().Pending; p != 0 {
			t.Errorf("%d are pending after Close", p)
		}
		runner.Run(t.Context(), input("tools/call"))
		if d := background.Stats().Dropped; d != 12 && d != 11 { // running ones fail, waiting ones are dropped; two more now
			t.Errorf("%d dropped after Close", d)
		}
	})
}

// The work of one session is done in order, however many sessions there are.
func TestBackgroundKeepsTheOrderOfASession(t *testing.T) {
	t.Parallel()
	s := &script{
		list: descriptor("sink", "sink", ""),
		invoke: func(ctx context.Context, _ jsonx.Value) (jsonx.Value, error) {
			retry.Sleep(ctx, time.Millisecond)
			return jsonx.Value(`{"recorded":true}`), nil
		},
	}
	var got results
	runner, background := runnerOf(t, &chain.BackgroundOptions{OnResult: got.add}, s.host())
	sent := map[uuid.UUID]string{}
	for i := range 60 {
		in := input("tools/call")
		in.Interception = uuid.NewV7()
		in.Context.SessionID = string(rune('a' + i%7))
		sent[in.Interception] = in.Context.SessionID
		runner.Run(t.Context(), in)
	}
	closeSoon(t, background)
	last := map[string]uuid.UUID{}
	for i := range got.list {
		id := got.list[i].Interception
		session := sent[id]
		if before := last[session]; before.String() > id.String() { // UUIDv7: in the order of their making
			t.Errorf("session %s: %s came before %s", session, before, id)
		}
		last[session] = id
	}
	if len(got.list) != 60 {
		t.Errorf("%d results, want 60", len(got.list))
	}
}
