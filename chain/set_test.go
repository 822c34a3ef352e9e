package chain_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
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
	overridden := func(list string, o chain.Override) func() []chain.HostSpec {
		return func() []chain.HostSpec {
			h := (&flaky{list: list}).host("b")
			h.Overrides = map[string]chain.Override{"x": o}
			return []chain.HostSpec{h}
		}
	}
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
		{"override of nobody", overridden("", chain.Override{}), chain.ErrConfig, []string{`"x"`, `"b"`}},
		{"config of nobody", func() []chain.HostSpec {
			h := (&flaky{}).host("b")
			h.Ref.Configs = map[string]jsonx.Value{"x": jsonx.Value(`{}`)}
			return []chain.HostSpec{h}
		}, chain.ErrConfig, []string{`"x"`, `"b"`}},
		{
			"sink put in audit mode", overridden(descriptor("x", "sink", ""), chain.Override{Mode: schemas.ModeAudit}),
			chain.ErrConfig,
			[]string{`"x"`, "sink"},
		},
		{
			"sink enforced", overridden(descriptor("x", "sink", ""), chain.Override{Enforce: &chain.Enforce{}}),
			chain.ErrConfig,
			[]string{`"x"`, `"b"`, "a sink is never enforced"},
		},
		{
			"canary in audit mode", overridden(descriptor("x", "validation", `,"mode":"audit"`), chain.Override{Enforce: &chain.Enforce{}}),
			chain.ErrConfig,
			[]string{`"x"`, `"b"`, "add mode: active"},
		},
		{
			"active one sampled", overridden(descriptor("x", "validation", ""), chain.Override{Sample: new(1.0)}),
			chain.ErrConfig,
			[]string{`"x"`, `"b"`, "add enforce or mode: audit"},
		},
		{
			"active one with a budget", overridden(descriptor("x", "mutation", ""), chain.Override{Budget: 1}),
			chain.ErrConfig,
			[]string{`"x"`, `"b"`, "add enforce or mode: audit"},
		},
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
