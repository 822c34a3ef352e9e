package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// appender is a server whose mutators add their name to payload.l, whose validators deny when the name is among deny,
// and whose calls fail when it is among fail.
func appender(list string, deny, fail string) *script {
	s := &script{list: list}
	s.invoke = func(_ context.Context, params jsonx.Value) (jsonx.Value, error) {
		name, _ := wire.MemberString(params, "name")
		if strings.Contains(fail, name) {
			return nil, fmt.Errorf("%s is broken", name)
		}
		if name[0] == 'v' {
			if strings.Contains(deny, name) {
				return jsonx.Value(`{"valid":false,"severity":"error","messages":[{"message":"no from ` + name + `","severity":"error"}]}`), nil
			}
			return jsonx.Value(`{"valid":true}`), nil
		}
		payload, _ := wire.Member(params, "payload")
		l, _ := wire.MemberString(payload, "l")
		return jsonx.Value(`{"modified":true,"payload":{"l":"` + l + name + `"}}`), nil
	}
	return s
}

// shape writes each invocation as name=state:input>output.
func shape(r *chain.Result) string {
	var b strings.Builder
	for i, inv := range r.Invocations {
		if inv.Order != i {
			fmt.Fprintf(&b, "ORDER %d ", inv.Order)
		}
		state := string(inv.State)
		if inv.SkipReason != "" {
			state += "(" + string(inv.SkipReason) + ")"
		}
		fmt.Fprintf(&b, "%s=%s:%s>%s ", inv.Interceptor, state, inv.Input, inv.Output)
	}
	for _, step := range r.Steps {
		fmt.Fprintf(&b, "step.%d=%s ", step.Index, step.Payload)
	}
	fmt.Fprintf(&b, "=> %s %s %v", r.Status, r.Payload, r.Modified)
	return b.String()
}

func TestStages(t *testing.T) {
	t.Parallel()
	mutation := func(name, more string) string { return descriptor(name, "mutation", more) }
	all := strings.Join([]string{
		descriptor("s", "sink", ""),
		descriptor("v2", "validation", ""), descriptor("v1", "validation", ""), descriptor("va", "validation", `,"mode":"audit"`),
		mutation("mb", ""), mutation("mc", `,"mode":"audit"`), mutation("md", ""), mutation("ma", `,"priorityHint":5`),
		mutation("mz", `,"mode":"audit","priorityHint":9`),
	}, ",")
	for _, test := range []struct {
		name      string
		list      string
		direction schemas.Direction
		deny      string
		fail      string
		want      string
	}{
		{
			name: "sending", list: all, direction: schemas.Sending,
			want: "mb=finished:payload.before>payload.step mc=deferred:payload.step> md=finished:payload.step> " +
				"ma=finished:>payload.after mz=deferred:payload.after> " +
				"v1=finished:payload.after> v2=finished:payload.after> va=deferred:payload.after> s=deferred:payload.after> " +
				`step.0={"l":"mb"} => success {"l":"mbmdma"} true`,
		},
		{
			name: "receiving", list: all, direction: schemas.Receiving,
			want: "v1=finished:payload.before> v2=finished:payload.before> va=deferred:payload.before> s=deferred:payload.before> " +
				"mb=finished:payload.before>payload.step.4 mc=deferred:payload.step.4> md=finished:payload.step.4> " +
				"ma=finished:>payload.after mz=deferred:payload.after> " +
				`step.4={"l":"mb"} => success {"l":"mbmdma"} true`,
		},
		{
			name: "sending, denied by a validator: what it saw is kept", list: all, direction: schemas.Sending, deny: "v2",
			want: "mb=finished:payload.before>payload.step mc=deferred:payload.step> md=finished:payload.step> " +
				"ma=finished:>payload.step.3 mz=deferred:payload.step.3> " +
				"v1=finished:payload.step.3> v2=finished:payload.step.3> va=deferred:payload.step.3> s=deferred:payload.step.3> " +
				`step.0={"l":"mb"} step.3={"l":"mbmdma"} => validation_failed {} false`,
		},
		{
			name: "receiving, denied by a validator: no mutator runs", list: all, direction: schemas.Receiving, deny: "v1",
			want: "v1=finished:payload.before> v2=finished:payload.before> va=deferred:payload.before> s=deferred:payload.before> " +
				"mb=skipped(aborted):> mc=deferred:payload.before> md=skipped(aborted):> ma=skipped(aborted):> mz=deferred:payload.before> " +
				`=> validation_failed {} false`,
		},
		{
			name: "sending, a mutator fails: nothing survives, the last good payload is kept", list: all, direction: schemas.Sending, fail: "md",
			want: "mb=finished:payload.before>payload.step mc=deferred:payload.step> md=failed:payload.step> " +
				"ma=skipped(aborted):> mz=deferred:payload.step> " +
				"v1=skipped(aborted):> v2=skipped(aborted):> va=deferred:payload.step> s=deferred:payload.step> " +
				`step.0={"l":"mb"} => mutation_failed {} false`,
		},
		{
			name: "a mutator that fails open is left out", direction: schemas.Sending, fail: "md",
			list: mutation("mb", "") + "," + mutation("md", `,"failOpen":true`) + "," + mutation("me", ""),
			want: "mb=finished:payload.before> md=failed:> me=finished:>payload.after " + `=> success {"l":"mbme"} true`,
		},
		{
			name: "only deferred", list: descriptor("s", "observability", ""), direction: schemas.Sending,
			want: "s=deferred:payload.before> => success {} false",
		},
		{name: "nothing", list: "", direction: schemas.Sending, want: "=> not_run {} false"},
		{
			name: "code point order, then", direction: schemas.Sending,
			list: mutation("m\U0001F600", "") + "," + mutation("m\uFF5E", "") + "," + mutation("mB", "") + "," + mutation("ma", ""),
			want: "mB=finished:payload.before> ma=finished:> m\uFF5E=finished:> m\U0001F600=finished:>payload.after " +
				"=> success {\"l\":\"mBmam\uFF5Em\U0001F600\"} true",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := appender(test.list, test.deny, test.fail)
			in := input("tools/call")
			in.Payload, in.Direction = jsonx.Value(`{}`), test.direction
			got := planOf(t, chain.Config{}, s.host()).Run(t.Context(), in)
			if diff := cmp.Diff(test.want, shape(&got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, name := range []string{"s", "va", "mc", "mz"} {
				if calls := s.seen(name); len(calls) > 0 {
					t.Errorf("%s ran in the path: %s", name, calls)
				}
			}
		})
	}
}

func TestPriorityOfThePhase(t *testing.T) {
	t.Parallel()
	s := appender(descriptor("ma", "mutation", `,"priorityHint":{"request":1,"response":-1}`)+","+
		descriptor("mb", "mutation", ""), "", "")
	plan := planOf(t, chain.Config{}, s.host())
	for phase, want := range map[schemas.Phase]string{
		schemas.PhaseRequest: `{"l":"mbma"}`, schemas.PhaseResponse: `{"l":"mamb"}`,
	} {
		in := input("tools/call")
		in.Payload, in.Phase = jsonx.Value(`{}`), phase
		if got := plan.Run(t.Context(), in); string(got.Payload) != want {
			t.Errorf("%s gives %s, want %s", phase, got.Payload, want)
		}
	}
}

func TestDenial(t *testing.T) {
	t.Parallel()
	two := descriptor("v1", "validation", "") + "," + descriptor("v2", "validation", "") + "," + descriptor("v3", "validation", "")
	for _, test := range []struct {
		name, list, deny, fail string
		detail                 chain.DenyDetail
		want                   chain.Denial
	}{
		{
			name: "validation", list: two, deny: "v2 v3", fail: "v1",
			want: chain.Denial{
				Interceptor: "v2", Type: "validation", Code: -32602, Message: "Interceptor validation failed", Reason: "no from v2",
				Data: jsonx.Value(`{"validationErrors":[{"interceptor":"v1","severity":"error","message":"the interceptor failed"},` +
					`{"interceptor":"v2","severity":"error","message":"no from v2"},` +
					`{"interceptor":"v3","severity":"error","message":"no from v3"}]}`),
			},
		},
		{
			name: "failed validator", list: two, fail: "v3",
			want: chain.Denial{
				Interceptor: "v3", Type: "validation", Code: -32602, Message: "Interceptor validation failed",
				Reason: "the interceptor failed: v3 is broken",
				Data:   jsonx.Value(`{"validationErrors":[{"interceptor":"v3","severity":"error","message":"the interceptor failed"}]}`),
			},
		},
		{
			name: "mutation", list: descriptor("m", "mutation", ""), fail: "m",
			want: chain.Denial{
				Interceptor: "m", Type: "mutation", Code: -32603, Message: "Interceptor mutation failed",
				Reason: "the interceptor failed: m is broken",
				Data:   jsonx.Value(`{"failedInterceptor":"m","reason":"the interceptor failed"}`),
			},
		},
		{
			name: "generic", list: two, deny: "v1", detail: chain.DenyGeneric,
			want: chain.Denial{Interceptor: "v1", Type: "validation", Code: -32602, Message: "Blocked by policy", Reason: "no from v1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := appender(test.list, test.deny, test.fail)
			got := planOf(t, chain.Config{DenyDetail: test.detail}, s.host()).Run(t.Context(), input("tools/call"))
			test.want.Phase = schemas.PhaseRequest
			if diff := cmp.Diff(&test.want, got.Denial); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAnInterceptorIsSent(t *testing.T) {
	t.Parallel()
	s := appender(descriptor("m", "mutation", "")+","+descriptor("v", "validation", ""), "", "")
	host := s.host()
	host.Ref.Configs = map[string]jsonx.Value{"v": jsonx.Value(`{"level":"high"}`)}
	host.Overrides = map[string]chain.Override{"v": {Envelope: new(true)}}
	plan := planOf(t, chain.Config{}, host)
	in := input("tools/call")
	in.Payload = jsonx.Value(`{ "l":"\ud83d", "n":9007199254740993 }`)
	in.Context.Timestamp = in.Context.Timestamp.Truncate(0).UTC()
	in.Context.Principal.Claims = map[string]string{"b": "2", "a": "1"}
	plan.Run(t.Context(), in)
	context := `"context":{"principal":{"type":"user","id":"u-17","claims":{"a":"1","b":"2"}},` +
		`"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","timestamp":"` +
		in.Context.Timestamp.Format("2006-01-02T15:04:05.000Z") + `","sessionId":"s-3"}`
	for name, want := range map[string]string{
		"m": `{"name":"m","timeoutMs":5000,"event":"tools/call","phase":"request","payload":` + string(in.Payload) + `,` + context + `}`,
		"v": `{"name":"v","config":{"level":"high"},"timeoutMs":5000,"event":"tools/call","phase":"request","payload":` +
			`{"method":"tools/call","params":{"l":"` + "\uFFFD" + `m"}},` + context + `}`,
	} {
		if calls := s.seen(name); len(calls) != 1 || string(calls[0]) != want {
			t.Errorf("%s got %s\nwant %s", name, calls, want)
		}
	}
	in.Payload, in.Phase = nil, schemas.PhaseResponse
	plan.Run(t.Context(), in)
	if payload, _ := wire.Member(s.seen("m")[1], "payload"); string(payload) != "{}" {
		t.Errorf("without a payload m got %s, want {}", payload)
	}
	if payload, _ := wire.Member(s.seen("v")[1], "payload"); string(payload) != `{"l":"m"}` {
		t.Errorf("a response is enveloped: %s", payload)
	}
}
