package chain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// member is an interceptor of a generated plan; what it does is said by its name's table, never by time.
type member struct {
	name, kind string
	audit      bool
	open       bool
	acts       string // pass, deny, warn, change, same, lie, fail, panic, garbage
	yields     int    // how often it gives way to others before it answers
}

func (m member) descriptor() string {
	more := ""
	if m.audit {
		more += `,"mode":"audit"`
	}
	if m.open {
		more += `,"failOpen":true`
	}
	return descriptor(m.name, m.kind, more)
}

// fails reports whether an active run of it is a failed invocation.
func (m member) fails() bool {
	return slices.Contains([]string{"lie", "fail", "panic", "garbage"}, m.acts)
}

// blocks reports whether it ends a run that gets to it.
func (m member) blocks() bool {
	return m.kind != "sink" && !m.audit && (m.acts == "deny" || (m.fails() && !m.open))
}

func members(t *rapid.T) []member {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) member {
		m := member{
			kind: rapid.SampledFrom([]string{"validation", "mutation", "sink"}).Draw(t, "kind"),
			open: rapid.Bool().Draw(t, "open"), yields: rapid.IntRange(0, 20).Draw(t, "yields"),
		}
		m.name = m.kind[:1] + rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "name")
		acts := []string{"pass", "deny", "warn", "fail", "panic", "garbage"}
		if m.kind == "mutation" {
			acts = []string{"change", "change", "same", "lie", "fail", "panic", "garbage"}
		}
		m.acts = rapid.SampledFrom(acts).Draw(t, "acts")
		m.audit = m.kind != "sink" && rapid.Bool().Draw(t, "audit")
		return m
	}), 0, 8, func(m member) string { return m.name }).Draw(t, "members")
}

// server makes a script of the members; ran is told of each invocation.
func server(list []member) *script {
	var descriptors []string
	by := map[string]member{}
	for _, m := range list {
		descriptors = append(descriptors, m.descriptor())
		by[m.name] = m
	}
	return &script{list: strings.Join(descriptors, ","), invoke: func(_ context.Context, params jsonx.Value) (jsonx.Value, error) {
		name, _ := wire.MemberString(params, "name")
		payload, _ := wire.Member(params, "payload")
		m := by[name]
		for range m.yields {
			runtime.Gosched()
		}
		switch m.acts {
		case "pass":
			return jsonx.Value(`{"valid":true}`), nil
		case "deny":
			return jsonx.Value(`{"valid":false,"severity":"error"}`), nil
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
		default:
			return jsonx.Value(`{"valid":1,"modified":`), nil
		}
	}}
}

func runOf(tb testing.TB, list []member, direction schemas.Direction) (*chain.Result, *script, jsonx.Value) {
	tb.Helper()
	s := server(list)
	in := input("tools/call")
	in.Payload, in.Direction = jsonx.Value(`{"l":""}`), direction
	in.Interception = [16]byte{1}
	sent := bytes.Clone(in.Payload)
	got := planOf(tb, chain.Config{}, s.host()).Run(tb.Context(), in)
	if !bytes.Equal(in.Payload, sent) {
		tb.Errorf("the input was changed to %s", in.Payload)
	}
	return &got, s, sent
}

// decision is a result without what depends on time.
func decision(r *chain.Result) string {
	for i := range r.Invocations {
		r.Invocations[i].DurationUS = 0
	}
	return fmt.Sprintf("%s errors %d warnings %d denial %+v", shape(r), r.Errors, r.Warnings, r.Denial)
}

func directions(t *rapid.T) schemas.Direction {
	return rapid.SampledFrom([]schemas.Direction{schemas.Sending, schemas.Receiving}).Draw(t, "direction")
}

// All changes or none; a denied message goes on unchanged, and nothing that blocks is swallowed.
func TestPropertyAtomicAndClosed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list, direction := members(rt), directions(rt)
		got, _, sent := runOf(t, list, direction)
		var changes []string
		blocked := false
		slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.name, b.name) })
		for _, m := range list {
			blocked = blocked || m.blocks()
			if m.kind == "mutation" && !m.audit && m.acts == "change" {
				changes = append(changes, m.name)
			}
		}
		want, changed := string(sent), strings.Join(changes, "")
		if !blocked && changed != "" {
			want = `{"l":"` + changed + `"}`
		}
		if (got.Denial != nil) != blocked || string(got.Payload) != want || got.Modified != (want != string(sent)) {
			rt.Fatalf("%s of %+v: %s, want blocked %v and %s", direction, list, decision(got), blocked, want)
		}
		if (got.Denial == nil) != (got.Status == schemas.StatusSuccess || got.Status == schemas.StatusNotRun) {
			rt.Fatalf("status %s with denial %+v", got.Status, got.Denial)
		}
	})
}

// The result does not depend on who answers first, nor on the order of the server's list.
func TestPropertyTimingDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list, direction := members(rt), directions(rt)
		first, _, _ := runOf(t, list, direction)
		shuffled := rapid.Permutation(list).Draw(rt, "shuffled")
		for i := range shuffled {
			shuffled[i].yields = rapid.IntRange(0, 20).Draw(rt, "yields again")
		}
		second, _, _ := runOf(t, shuffled, direction)
		if diff := cmp.Diff(decision(first), decision(second)); diff != "" {
			rt.Fatalf("%+v\nand\n%+v\n%s", list, shuffled, diff)
		}
		if diff := cmp.Diff(first.PlanDigest, second.PlanDigest); diff != "" {
			rt.Fatalf("digest: %s", diff)
		}
	})
}

// Sinks and audit mode never run in the path, and without them everything else is the same.
func TestPropertyDeferredChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list, direction := members(rt), directions(rt)
		got, s, _ := runOf(t, list, direction)
		var active []member
		for _, m := range list {
			if m.kind != "sink" && !m.audit {
				active = append(active, m)
			} else if len(s.seen(m.name)) > 0 {
				rt.Fatalf("%+v ran in the path", m)
			}
		}
		without, _, _ := runOf(t, active, direction)
		if string(got.Payload) != string(without.Payload) || got.Errors != without.Errors {
			rt.Fatalf("with: %s\nwithout: %s", decision(got), decision(without))
		}
		if diff := cmp.Diff(without.Denial, got.Denial); diff != "" {
			rt.Fatal(diff)
		}
		kept := map[string]bool{"payload.before": true, "payload.after": got.Modified}
		for _, step := range got.Steps {
			kept[schemas.ItemName(schemas.RoleStep, step.Index)] = true
		}
		for _, inv := range got.Invocations {
			if inv.State == schemas.StateDeferred && !kept[inv.Input] {
				rt.Fatalf("%s was given %q, which nobody keeps: %s", inv.Interceptor, inv.Input, decision(got))
			}
			if (inv.Input != "" && !kept[inv.Input]) || (inv.Output != "" && !kept[inv.Output]) {
				rt.Fatalf("%s names what nobody keeps: %s", inv.Interceptor, decision(got))
			}
		}
	})
}
