package client_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/client"
	"github.com/chaintrail/chaintrail/chain/exchange"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// ledger keeps what is recorded.
type ledger struct {
	refuse schemas.Kind // fails for events of this kind

	mu      sync.Mutex
	records []*schemas.Record
}

func (l *ledger) Record(_ context.Context, rec *schemas.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rec.Event.Kind == l.refuse {
		return errors.New("disk full")
	}
	l.records = append(l.records, rec)
	return nil
}

// tell sums the records up.
func (l *ledger) tell() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, r := range l.records {
		e := &r.Event
		parts := []string{string(e.Kind), e.Operation.Event, string(e.Decision.Status), string(e.Decision.Outcome)}
		for _, inv := range e.Invocations {
			parts = append(parts, inv.Interceptor+":"+string(inv.State))
		}
		list = append(list, strings.Join(parts, " "))
	}
	return list
}

// localChain makes a chain that is closed at the end.
func localChain(tb testing.TB, list ...interceptor.Interceptor) *chain.LocalChain {
	tb.Helper()
	local, err := chain.NewLocalChain(nil, list...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := local.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return local
}

func newClient(tb testing.TB, b *backend, opts client.Options) *client.Client {
	tb.Helper()
	c, err := client.New(connect(tb, b, "memory"), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Lists pass only when they are told to, and are then not in the record either; what is no list never passes.
func TestPassDiscovery(t *testing.T) {
	t.Parallel()
	for _, pass := range []bool{false, true} {
		t.Run(strconv.FormatBool(pass), func(t *testing.T) {
			t.Parallel()
			local := localChain(t, interceptor.Validator(interceptor.Descriptor{Name: "no", Hooks: interceptor.OnRequest("*")},
				func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
					return interceptor.Deny("no"), nil
				}))
			journal := &ledger{}
			c := newClient(t, &backend{}, client.Options{Plan: local.Plan, Recorder: journal, PassDiscovery: pass})
			for name, list := range map[string]func() error{
				"tools":     func() error { _, err := c.ListTools(t.Context(), nil); return err },
				"prompts":   func() error { _, err := c.ListPrompts(t.Context(), nil); return err },
				"resources": func() error { _, err := c.ListResources(t.Context(), nil); return err },
				"templates": func() error { _, err := c.ListResourceTemplates(t.Context(), nil); return err },
			} {
				err := list()
				if _, denied := errors.AsType[*chain.DeniedError](err); denied == pass || pass != (err == nil) {
					t.Errorf("a list of %s: %v", name, err)
				}
			}
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo"})
			if _, denied := errors.AsType[*chain.DeniedError](err); !denied {
				t.Errorf("a call: %v", err)
			}
			want := 10 // request and outcome of each
			if pass {
				want = 2
			}
			if got := journal.tell(); len(got) != want {
				t.Errorf("recorded %q, want %d events", got, want)
			}
		})
	}
}

// The time of a call covers interceptors and server, and how it ended is recorded.
func TestTimeout(t *testing.T) {
	t.Parallel()
	local := localChain(t, interceptor.Validator(interceptor.Descriptor{Name: "slow", Hooks: interceptor.OnRequest("tools/call")},
		func(ctx context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			if strings.Contains(string(call.Payload), "hang-here") {
				<-ctx.Done()
			}
			return interceptor.Pass(), nil
		}))
	for _, test := range []struct {
		name, text, reached string
		want                []string
	}{
		{"interceptor", "hang-here", "", []string{
			"request tools/call cancelled  slow:timeout", "outcome tools/call cancelled cancelled",
		}},
		{"server", "hang-there", `{"x":"hang-there"}`, []string{
			"request tools/call success  slow:finished", "outcome tools/call not_run cancelled",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b, journal := &backend{}, &ledger{}
			c := newClient(t, b, client.Options{Plan: local.Plan, Recorder: journal, Timeout: 200 * time.Millisecond})
			begin := time.Now()
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"x": test.text}})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the call ended with %v", err)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("the call took %v", took)
			}
			if diff := cmp.Diff(b.tell(), test.reached); diff != "" {
				t.Errorf("what reached the server differs (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(journal.tell(), test.want); diff != "" {
				t.Errorf("record differs (-got +want):\n%s", diff)
			}
		})
	}
}

// With a recorder each call is a request and an outcome, deferred work is left to the record, and what cannot be recorded
// is not done.
func TestRecorder(t *testing.T) {
	t.Parallel()
	local := rules(t)
	t.Cleanup(func() { _ = local.Close(context.Background()) })
	journal, b := &ledger{}, &backend{}
	opts := client.Options{
		Plan: local.Plan, Recorder: journal, Background: local.Background(), Server: "shop", Tenant: "acme", Gateway: "host", Transport: "inprocess",
		Principal: func(context.Context) (chain.Principal, string) {
			return chain.Principal{Type: "user", ID: "eve"}, "login"
		},
	}
	c := newClient(t, b, opts)
	call := func(c *client.Client, x string) error {
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"x": x}})
		return err
	}
	if err := call(c, "plain"); err != nil {
		t.Error(err)
	}
	if err := call(c, "secret"); err == nil {
		t.Error("a denied call has no error")
	}
	if diff := cmp.Diff(journal.tell(), []string{
		"request tools/call success  fancy:finished guard:finished sink:deferred",
		"outcome tools/call success allowed guard:finished fancy:finished",
		"request tools/call validation_failed  fancy:finished guard:finished sink:deferred",
		"outcome tools/call validation_failed denied",
	}); diff != "" {
		t.Errorf("record differs (-got +want):\n%s", diff)
	}
	if got := local.Background().Stats().Submitted; got != 0 {
		t.Errorf("%d deferred invocations were made here too", got)
	}
	first := journal.records[0]
	if e := &first.Event; e.Tenant != "acme" || e.Gateway != "host" || e.Operation.Server != "shop" || e.Operation.TargetRef == "" ||
		e.Operation.Direction != schemas.Sending || e.Actor.Type != "user" || e.Actor.VerifiedBy != "login" || e.Decision.PlanDigest.IsZero() {
		t.Errorf("request event: %+v %+v %+v", e, e.Operation, e.Actor)
	}
	var roles []string
	for _, item := range first.Items {
		roles = append(roles, string(item.Role))
	}
	if diff := cmp.Diff(roles, []string{"payload.before", "payload.after", "context"}); diff != "" {
		t.Errorf("open items differ (-got +want):\n%s", diff)
	}
	for kind, reached := range map[schemas.Kind]bool{schemas.KindRequest: false, schemas.KindOutcome: true} {
		opts.Recorder = &ledger{refuse: kind}
		b := &backend{}
		if err := call(newClient(t, b, opts), "x"); !errors.Is(err, exchange.ErrNotRecorded) || reached != (b.tell() != "") {
			t.Errorf("with a %s that is not recorded: %v, the server saw %q", kind, err, b.tell())
		}
	}
}
