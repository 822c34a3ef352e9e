package interop_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// member is an interceptor of a drawn plan. What it does depends on nothing but this.
type member struct {
	name, kind, phase, event string
	audit, open              bool
	priority                 int
	acts                     string
	yields                   int
}

func (m *member) deferred() bool { return m.kind == "sink" || m.audit }

func (m *member) due(phase string) bool {
	return m.event != "prompts/get" && (m.phase == "both" || m.phase == phase)
}

func (m *member) blocks() bool {
	failed := slices.Contains([]string{"lie", "fail", "panic", "garbage", "hang"}, m.acts)
	return !m.deferred() && (m.acts == "deny" || (failed && !m.open))
}

// drawn is a server of drawn interceptors, in process.
type drawn struct {
	members []member

	mu    sync.Mutex
	calls map[string]int
}

func (d *drawn) Done() <-chan struct{} { return nil }
func (d *drawn) Close() error          { return nil }

// Call implements chain.Conn.
func (d *drawn) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	if method == interceptor.MethodList {
		var list []string
		for _, m := range d.members {
			text := fmt.Sprintf(`{"name":%q,"type":%q,"hooks":[{"events":[%q],"phase":%q}],"failOpen":%v,"priorityHint":%d`, m.name, m.kind, m.event, m.phase, m.open, m.priority)
			if m.audit {
				text += `,"mode":"audit"`
			}
			list = append(list, text+"}")
		}
		return jsonx.Value(`{"interceptors":[` + strings.Join(list, ",") + `]}`), nil
	}
	name, _ := wire.MemberString(params, "name")
	i := slices.IndexFunc(d.members, func(m member) bool { return m.name == name })
	d.mu.Lock()
	d.calls[name]++
	d.mu.Unlock()
	for range d.members[i].yields {
		runtime.Gosched()
	}
	payload, _ := wire.Member(params, "payload")
	return act(ctx, d.members[i].acts, name, payload)
}

func act(ctx context.Context, acts, name string, payload jsonx.Value) (jsonx.Value, error) {
	switch acts {
	case "pass":
		return jsonx.Value(`{"valid":true}`), nil
	case "deny":
		return jsonx.Value(`{"valid":false,"severity":"error","messages":[{"message":"no"}]}`), nil
	case "warn":
		return jsonx.Value(`{"valid":false,"severity":"warn"}`), nil
	case "change":
		l, _ := wire.MemberString(payload, "l")
		return jsonx.Value(`{"modified":true,"payload":{"l":"` + l + name + `"}}`), nil
	case "same":
		return jsonx.Value(`{"modified":false,"payload":` + string(payload) + `}`), nil
	case "lie":
		return jsonx.Value(`{"modified":false,"payload":{"l":"lie"}}`), nil
	case "fail":
		return nil, errors.New("broken")
	case "panic":
		panic("boom")
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		return jsonx.Value(`{"valid":1,"modified":`), nil
	}
}

func drawMembers(t *rapid.T) []member {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) member {
		m := member{
			kind:  rapid.SampledFrom([]string{"validation", "mutation", "sink"}).Draw(t, "kind"),
			phase: rapid.SampledFrom([]string{"request", "response", "both"}).Draw(t, "phase"),
			event: rapid.SampledFrom([]string{"*", "tools/call", "tools/*", "prompts/get"}).Draw(t, "event"),
			open:  rapid.Bool().Draw(t, "open"), yields: rapid.IntRange(0, 20).Draw(t, "yields"), priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
		}
		m.name = m.kind[:1] + rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "name")
		m.audit = m.kind != "sink" && rapid.Bool().Draw(t, "audit")
		acts := []string{"pass", "pass", "pass", "deny", "warn", "fail", "panic", "garbage", "hang"}
		if m.kind == "mutation" {
			acts = []string{"change", "change", "change", "same", "lie", "fail", "panic", "garbage", "hang"}
		}
		m.acts = rapid.SampledFrom(acts).Draw(t, "acts")
		return m
	}), 0, 6, func(m member) string { return m.name }).Draw(t, "members")
}

// model says what becomes of a payload in one phase.
func model(members []member, phase, payload string) (out string, blocked bool) {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b member) int { return cmp.Or(a.priority-b.priority, cmp.Compare(a.name, b.name)) })
	var changed []string
	for _, m := range sorted {
		if !m.due(phase) || m.deferred() {
			continue
		}
		blocked = blocked || m.blocks()
		if m.acts == "change" {
			changed = append(changed, m.name)
		}
	}
	if blocked || changed == nil {
		return payload, blocked
	}
	return `{"l":"` + strings.Join(changed, "") + `"}`, false
}

// TestPropertyGateway: drawn plans in a real gateway between a client and a server. The model knows
// nothing of sinks, audit mode and time, so that they change nothing is part of it.
//
//   - mutations are atomic, and their order does not depend on timing
//   - a blocking failure is never swallowed, a denied request never reaches the server
//   - sinks and audit mode are not called in the path and change nothing
//   - what nobody changes passes byte for byte, and what nobody matches is not called
func TestPropertyGateway(t *testing.T) {
	t.Parallel()
	const sent, answered = `{ "l":"" , "n":1e400}`, `{"l" : "","n":9007199254740993 }`
	p := newPeer(t, func(msg *wire.Message) reply {
		return say(`{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"result":` + answered + `}`)
	})
	var plan atomic.Pointer[chain.Plan]
	b := p.backend(t, overHTTP)
	b.Plan = func() gateway.Plan { return plan.Load() }
	o := newWorld(t, way{overHTTP, overHTTP}, b, nil)
	c := o.newClient(t, "s")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		d := &drawn{members: drawMembers(rt), calls: map[string]int{}}
		set, err := chain.NewSet(chain.SetOptions{ChainTimeout: time.Minute, Hosts: []chain.HostSpec{{
			Ref: schemas.HostRef{Host: "drawn"}, Connect: func(context.Context) (chain.Conn, error) { return d, nil },
			Timeout: time.Minute, Overrides: d.limits(),
		}}})
		if err != nil {
			rt.Fatal(err)
		}
		if err := set.Start(t.Context()); err != nil {
			rt.Fatal(err)
		}
		plan.Store(set.Current())
		n++
		before := len(p.requests())
		raw := `{"jsonrpc":"2.0","id":` + strconv.Itoa(n) + `,"method":"tools/call","params":` + sent + `}`
		answer := c.call(t, []byte(raw))
		d.check(rt, raw, p.requests()[before:], string(answer), sent, answered)
	})
}

// limits are short for those that hang, and only for them.
func (d *drawn) limits() map[string]chain.Override {
	limits := map[string]chain.Override{}
	for _, m := range d.members {
		if m.acts == "hang" {
			limits[m.name] = chain.Override{Timeout: 20 * time.Millisecond}
		}
	}
	return limits
}

func (d *drawn) check(t *rapid.T, raw string, arrived []string, answer, sent, answered string) {
	params, denied := model(d.members, "request", sent)
	result, deniedBack := model(d.members, "response", answered)
	want := ""
	if !denied {
		want = strings.Replace(raw, sent, params, 1)
	}
	if diff := gocmp.Diff(want, strings.Join(arrived, "\n")); diff != "" {
		t.Fatalf("at the server (-want +got):\n%s\nof %+v", diff, d.members)
	}
	msg, err := wire.Parse([]byte(answer), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	switch rpc := msg.RPCError(); {
	case denied || deniedBack:
		if rpc == nil || !slices.Contains([]int{wire.CodeInvalidParams, wire.CodeInternal, wire.CodeTimeout}, rpc.Code) {
			t.Fatalf("a block was answered with %s, of %+v", answer, d.members)
		}
	case string(msg.Result) != result:
		t.Fatalf("the client got %s, want %s, of %+v", answer, result, d.members)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.members {
		if d.calls[m.name] > 0 && (m.deferred() || (!m.due("request") && !m.due("response"))) {
			t.Fatalf("%+v was called in the path", m)
		}
	}
}
