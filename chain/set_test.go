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

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// flaky is a server whose list and reachability change during a test.
type flaky struct {
	mu        sync.Mutex
	list      string
	refuse    error         // of the next connections
	listErr   error         // of the next listings
	invokeErr error         // of the next invocations
	done      chan struct{} // of the connection there is
	connects  int
	closed    int
}

type flakyConn struct {
	*flaky
	done chan struct{}
}

func (f *flaky) connect(context.Context) (chain.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connects++
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.done = make(chan struct{})
	return &flakyConn{f, f.done}, nil
}

func (c *flakyConn) Call(_ context.Context, method string, _ jsonx.Value) (jsonx.Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if method == interceptor.MethodList {
		if c.listErr != nil {
			return nil, c.listErr
		}
		return jsonx.Value(`{"interceptors":[` + c.list + `]}`), nil
	}
	if c.invokeErr != nil {
		return nil, c.invokeErr
	}
	return jsonx.Value(`{"valid":true}`), nil
}

func (c *flakyConn) Done() <-chan struct{} { return c.done }

func (c *flakyConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return nil
}

func (f *flaky) change(change func(*flaky)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *flaky) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.connects
}

func (f *flaky) host(name string) chain.HostSpec {
	return chain.HostSpec{Ref: schemas.HostRef{Host: name}, Connect: f.connect}
}

// start starts and runs a set until the test ends.
func start(t *testing.T, opts chain.SetOptions) *chain.Set {
	t.Helper()
	set, err := chain.NewSet(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- set.Run(ctx) }() // exits with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return set
}

func names(p *chain.Plan) string {
	var list []string
	for _, i := range p.Interceptors() {
		list = append(list, i.Entry().Name)
	}
	return strings.Join(list, " ")
}

func TestStartIsBlocked(t *testing.T) {
	t.Parallel()
	good := &flaky{list: descriptor("v", "validation", "")}
	for _, test := range []struct {
		name  string
		hosts func() []chain.HostSpec
		is    error
		want  []string
	}{
		{"not reached", func() []chain.HostSpec {
			return []chain.HostSpec{(&flaky{refuse: errors.New("connection refused")}).host("b")}
		}, chain.ErrDiscovery, []string{`"b"`, "connection refused"}},
		{"lists garbage", func() []chain.HostSpec {
			return []chain.HostSpec{(&flaky{list: `}`}).host("b")}
		}, chain.ErrList, []string{`"b"`}},
		{"answers with an error", func() []chain.HostSpec {
			return []chain.HostSpec{(&flaky{listErr: &wire.RPCError{Code: -32601, Message: "no such method"}}).host("b")}
		}, chain.ErrDiscovery, []string{`"b"`, "no such method"}},
		{"one name on two servers", func() []chain.HostSpec {
			return []chain.HostSpec{(&flaky{list: descriptor("v", "sink", "")}).host("b")}
		}, chain.ErrConfig, []string{`"v"`, `"a"`, `"b"`}},
		{"override of nobody", func() []chain.HostSpec {
			h := (&flaky{}).host("b")
			h.Overrides = map[string]chain.Override{"x": {}}
			return []chain.HostSpec{h}
		}, chain.ErrConfig, []string{`"x"`, `"b"`}},
		{"config of nobody", func() []chain.HostSpec {
			h := (&flaky{}).host("b")
			h.Ref.Configs = map[string]jsonx.Value{"x": jsonx.Value(`{}`)}
			return []chain.HostSpec{h}
		}, chain.ErrConfig, []string{`"x"`, `"b"`}},
		{"sink put in audit mode", func() []chain.HostSpec {
			h := (&flaky{list: descriptor("s", "sink", "")}).host("b")
			h.Overrides = map[string]chain.Override{"s": {Mode: schemas.ModeAudit}}
			return []chain.HostSpec{h}
		}, chain.ErrConfig, []string{`"s"`, "sink"}},
		{"wider hooks", func() []chain.HostSpec {
			h := (&flaky{list: `{"name":"w","type":"validation","hooks":[{"events":["tools/*"],"phase":"request"}]}`}).host("b")
			h.Overrides = map[string]chain.Override{"w": {Hooks: interceptor.OnResponse("tools/call")}}
			return []chain.HostSpec{h}
		}, chain.ErrConfig, []string{`"w"`, "tools/call/response", "wider"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			set, err := chain.NewSet(chain.SetOptions{Hosts: append([]chain.HostSpec{good.host("a")}, test.hosts()...)})
			if err != nil {
				t.Fatal(err)
			}
			err = set.Start(t.Context())
			if !errors.Is(err, test.is) || set.Current() != nil {
				t.Fatalf("Start: %v, plan %v; want no plan and %v", err, set.Current(), test.is)
			}
			for _, text := range test.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q does not name %s", err, text)
				}
			}
		})
	}
	t.Cleanup(func() {
		if good.connects != good.closed {
			t.Errorf("%d connections, %d closed", good.connects, good.closed)
		}
	})
}

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	with := func(o chain.Override) chain.SetOptions {
		h := (&flaky{}).host("h")
		h.Overrides = map[string]chain.Override{"v": o}
		return chain.SetOptions{Hosts: []chain.HostSpec{h}}
	}
	for name, opts := range map[string]chain.SetOptions{
		"mode":        with(chain.Override{Mode: "enforce"}),
		"timeout":     with(chain.Override{Timeout: -1}),
		"retries":     with(chain.Override{Retries: new(-1)}),
		"hooks":       with(chain.Override{Hooks: []schemas.Hook{{Events: []string{"*"}}}}),
		"deny detail": {Config: chain.Config{DenyDetail: "full"}},
		"no name":     {Hosts: []chain.HostSpec{(&flaky{}).host("")}},
		"two of one":  {Hosts: []chain.HostSpec{(&flaky{}).host("h"), (&flaky{}).host("h")}},
	} {
		if _, err := chain.NewSet(opts); !errors.Is(err, chain.ErrConfig) {
			t.Errorf("%s: NewSet returned %v", name, err)
		}
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	f := &flaky{list: strings.Join([]string{
		descriptor("a", "validation", ""), descriptor("b", "validation", `,"mode":"audit","failOpen":true,"priorityHint":3`),
		descriptor("s", "sink", `,"mode":"audit"`), descriptor("x", "widget", ""),
	}, ",")}
	host := f.host("h")
	host.Timeout = 3 * time.Second
	host.Ref.Configs = map[string]jsonx.Value{"a": jsonx.Value(`{ "k": 1 }`)}
	host.Overrides = map[string]chain.Override{"b": {
		Mode: schemas.ModeActive, FailOpen: new(false), Priority: new(int32(-1)), Timeout: time.Second, Retries: new(0),
		Hooks: interceptor.OnRequest("tools/call"), Envelope: new(true),
	}}
	plan := start(t, chain.SetOptions{Server: "files", Hosts: []chain.HostSpec{host}}).Current()
	record, refs := plan.Record()
	both := []schemas.Hook{{Events: []string{"*"}, Phase: schemas.PhaseRequest}, {Events: []string{"*"}, Phase: schemas.PhaseResponse}}
	want := []schemas.PlanEntry{
		{
			Host: "h", Name: "a", Type: schemas.TypeValidation, Mode: schemas.ModeActive, Hooks: both, TimeoutMS: 3000, Retries: 5,
			Config: record.Entries[0].Config, Origin: []string{"descriptor", "override.timeout"},
		},
		{
			Host: "h", Name: "b", Type: schemas.TypeValidation, Mode: schemas.ModeActive, PriorityRq: -1, PriorityRs: -1,
			Hooks: interceptor.OnRequest("tools/call"), TimeoutMS: 1000, Envelope: true,
			Origin: []string{
				"descriptor", "override.mode", "override.fail_open", "override.priority", "override.timeout",
				"override.retries", "override.hooks", "override.envelope",
			},
		},
	}
	if diff := cmp.Diff(want, record.Entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	notes := []schemas.PlanNote{{Host: "h", Name: "s", Reason: "sink_in_audit_mode"}, {Host: "h", Name: "x", Reason: "unknown_type"}}
	if diff := cmp.Diff(notes, record.Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	if record.Server != "files" || record.Digest.IsZero() || record.Entries[0].Config.IsZero() || refs[0].Host != "h" || refs[0].Configs["a"] == nil {
		t.Errorf("record is %+v, hosts %+v", record, refs)
	}
	if !plan.Matches("tools/call", schemas.PhaseRequest) || !plan.Matches("x/y", schemas.PhaseResponse) {
		t.Error("a wildcard does not match")
	}
}

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
