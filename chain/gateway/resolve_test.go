package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// replacing is an interceptor server with one mutator of tool calls.
func replacing(t *testing.T, host, from, to string, priority int32) chain.HostSpec {
	t.Helper()
	server, err := interceptor.New(nil, interceptor.Mutator(
		interceptor.Descriptor{Name: host + "/replace", Hooks: interceptor.OnRequest("tools/call"), Priority: interceptor.Priority{Request: priority}},
		func(_ context.Context, c *interceptor.Call) (interceptor.Mutation, error) {
			return interceptor.Mutation{Modified: true, Payload: jsonx.Value(strings.ReplaceAll(string(c.Payload), from, to))}, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	return chain.HostSpec{Ref: schemas.HostRef{Host: host}, Connect: chain.Local(server)}
}

type resolverFunc func(ctx context.Context, r *Request) (Resolution, error)

func (f resolverFunc) Resolve(ctx context.Context, r *Request) (Resolution, error) { return f(ctx, r) }

// TestResolve: servers chosen for one request run in one order with the plan in force, or alone; what they are is
// recorded before they decide; where nobody knows, the request is denied.
func TestResolve(t *testing.T) {
	t.Parallel()
	gone := chain.HostSpec{
		Ref:     schemas.HostRef{Host: "gone"},
		Connect: func(context.Context) (chain.Conn, error) { return nil, errors.New("connection refused at 10.0.0.7") },
	}
	eachWayWith(t, func(o *Options) {
		early, late := replacing(t, "early", "evil", "kind", -10), replacing(t, "late", "gone", "left", 10)
		o.Backends[0].Plan = realPlan(t)
		o.ResolvedIdle = 200 * time.Millisecond
		o.Rules.Resolver = resolverFunc(func(_ context.Context, r *Request) (Resolution, error) {
			switch text := string(r.Params); {
			case r.Event != methodToolsCall || r.Target != "echo":
				return Resolution{}, nil
			case strings.Contains(text, "nobody knows"):
				return Resolution{}, errors.New("directory at 10.0.0.8 is down")
			case strings.Contains(text, "unreachable"):
				return Resolution{Hosts: []chain.HostSpec{early, gone}}, nil
			case strings.Contains(text, "alone"):
				return Resolution{Hosts: []chain.HostSpec{late}, Alone: true}, nil
			case strings.Contains(text, "free"):
				return Resolution{Alone: true}, nil
			}
			return Resolution{Hosts: []chain.HostSpec{late, early}}, nil
		})
	}, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		for _, c := range []struct{ text, want string }{
			{"an evil secret", "an kind [left]"}, // early, then the plan in force, then late
			{"alone: evil secret gone", "alone: evil secret left"},
			{"free: evil secret gone", "free: evil secret gone"},
			{"once more a secret", "once more a [left]"},
		} {
			if got := callTool(t, cs, "echo", c.text); got != c.want {
				t.Errorf("%q: got %q, want %q", c.text, got, c.want)
			}
		}
		for _, text := range []string{"nobody knows", "unreachable"} {
			_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}})
			if err == nil || !strings.Contains(err.Error(), "not available") || strings.Contains(err.Error(), "10.0.0") {
				t.Errorf("%s: got %v", text, err)
			}
		}
		rec := w.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeDenied)
		if rec.Event.Decision.Cause != causeUnresolved {
			t.Errorf("cause %q", rec.Event.Decision.Cause)
		}
		digests := map[string]string{}
		for _, rec := range w.ledger.records() {
			if p := rec.Event.Plan; p != nil {
				digests[p.Server] += p.Digest.String()
			}
		}
		if len(digests) != 2 || digests["b+late+early"] == "" || digests["+late"] == "" {
			t.Errorf("plan events of %v, want two plans", digests)
		}
		waitFor(t, "idle servers are let go", func() bool { return w.pool.Connected() == 0 })
		if got := callTool(t, cs, "echo", "again a secret"); got != "again a [left]" {
			t.Errorf("after the idle time: got %q", got)
		}
	})
}

func TestResolveRules(t *testing.T) {
	t.Parallel()
	a, b, c := chain.HostSpec{Ref: schemas.HostRef{Host: "a"}}, chain.HostSpec{Ref: schemas.HostRef{Host: "b"}}, chain.HostSpec{Ref: schemas.HostRef{Host: "c"}}
	rules := ResolveRules{
		{Events: []string{"tools/*"}, Targets: []string{"mail_*"}, Hosts: []chain.HostSpec{a}},
		{Principals: []string{"ops-*"}, Backends: []string{"prod"}, Hosts: []chain.HostSpec{b}},
		{Headers: map[string]string{"x-team": "red*"}, Hosts: []chain.HostSpec{c}, Alone: true},
	}
	verified := Caller{Principal: chain.Principal{ID: "ops-1"}, VerifiedBy: "header"}
	for _, tc := range []struct {
		name  string
		r     Request
		want  string
		alone bool
	}{
		{"nothing", Request{Event: "prompts/get"}, "", false},
		{"by tool", Request{Event: "tools/call", Target: "mail_send"}, "a", false},
		{"another tool", Request{Event: "tools/call", Target: "send_mail"}, "", false},
		{"no tool", Request{Event: "tools/list"}, "", false},
		{"by principal", Request{Event: "tools/list", Caller: verified, Backend: "prod"}, "b", false},
		{"an asserted principal", Request{Event: "tools/list", Caller: Caller{Principal: verified.Principal}, Backend: "prod"}, "", false},
		{"both", Request{Event: "tools/call", Target: "mail_x", Caller: verified, Backend: "prod"}, "ab", false},
		{"by header", Request{Event: "tools/list", Headers: http.Header{"X-Team": {"blue", "red-2"}}}, "c", true},
		{"another header", Request{Event: "tools/list", Headers: http.Header{"X-Team": {"blue"}}}, "", false},
	} {
		got, err := rules.Resolve(t.Context(), &tc.r)
		var named strings.Builder
		for _, h := range got.Hosts {
			named.WriteString(h.Ref.Host)
		}
		hosts := named.String()
		if err != nil || hosts != tc.want || got.Alone != tc.alone {
			t.Errorf("%s: got %q, alone %t, %v; want %q, %t", tc.name, hosts, got.Alone, err, tc.want, tc.alone)
		}
	}
}
