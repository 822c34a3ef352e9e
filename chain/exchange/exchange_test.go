package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/exchange"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger keeps what is recorded, until it refuses.
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

// tell sums the records up: kind, status, outcome and error code.
func (l *ledger) tell() string {
	var list []string
	for _, r := range l.records {
		d := r.Event.Decision
		list = append(list, strings.Join(strings.Fields(fmt.Sprint(r.Event.Kind, " ", d.Status, " ", d.Outcome, " ", d.ErrorCode)), " "))
	}
	return strings.Join(list, "; ")
}

// plan has interceptors that do as the payload says.
func plan(tb testing.TB) *chain.Plan {
	tb.Helper()
	server, err := interceptor.New(nil,
		interceptor.Validator(interceptor.Descriptor{Name: "v", Hooks: interceptor.Both("tools/*")},
			func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
				if strings.Contains(string(call.Payload), "secret") {
					return interceptor.Deny("a secret"), nil
				}
				return interceptor.Pass(), nil
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "m", Hooks: interceptor.Both("tools/*")},
			func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
				if !strings.Contains(string(call.Payload), "plain") {
					return interceptor.Unmodified(), nil
				}
				return interceptor.Mutation{Modified: true, Payload: jsonx.Value(strings.ReplaceAll(string(call.Payload), "plain", "fancy"))}, nil
			}),
		interceptor.Sink(interceptor.Descriptor{Name: "s", Hooks: interceptor.Both("*")},
			func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				return interceptor.Receipt{Recorded: true}, nil
			}),
	)
	if err != nil {
		tb.Fatal(err)
	}
	set, err := chain.NewSet(chain.SetOptions{Hosts: []chain.HostSpec{{Ref: schemas.HostRef{Host: "h"}, Connect: chain.Local(server)}}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := set.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return set.Current()
}

func TestEachExchangeEndsInOneOutcome(t *testing.T) {
	t.Parallel()
	p := plan(t)
	broken := errors.New("connection reset")
	for _, test := range []struct {
		name   string
		params string
		result string
		err    error
		cancel bool // while the request is made
		refuse schemas.Kind
		want   string // what is recorded
		gets   string // params of the request that is made; empty: none is
		back   string
		is     error
		denied *chain.DeniedError
	}{
		{
			name: "allowed", params: `{"name":"a"}`, result: `{"isError":true}`,
			want: "request success 0; outcome success allowed 0", gets: `{"name":"a"}`, back: `{"isError":true}`,
		},
		{
			name: "changed", params: `{"name":"plain"}`, result: `{"x":"plain"}`,
			want: "request success 0; outcome success allowed 0", gets: `{"name":"fancy"} changed`, back: `{"x":"fancy"} changed`,
		},
		{
			name: "denied", params: `{"name":"secret"}`,
			want:   "request validation_failed 0; outcome validation_failed denied -32602",
			denied: &chain.DeniedError{Status: schemas.StatusValidationFailed, Severity: schemas.SeverityError, Messages: []chain.Finding{{Interceptor: "v", Severity: schemas.SeverityError, Message: "a secret"}}},
		},
		{
			name: "result denied", params: `{}`, result: `"secret"`,
			want: "request success 0; outcome validation_failed denied -32602", gets: `{}`,
			denied: &chain.DeniedError{Status: schemas.StatusValidationFailed, Severity: schemas.SeverityError, Messages: []chain.Finding{{Interceptor: "v", Severity: schemas.SeverityError, Message: "a secret"}}},
		},
		{
			name: "error answer", params: `{}`, err: fmt.Errorf("calling: %w", &jsonrpc.Error{Code: -32002, Message: "no such resource"}),
			want: "request success 0; outcome not_run error -32002", gets: `{}`,
		},
		{name: "no answer", params: `{}`, err: broken, want: "request success 0; outcome not_run error -32603", gets: `{}`, is: broken},
		{
			name: "cancelled", params: `{}`, err: context.Canceled, cancel: true,
			want: "request success 0; outcome not_run cancelled 0", gets: `{}`, is: context.Canceled,
		},
		{name: "no result", params: `{}`, want: "request success 0; outcome not_run allowed 0", gets: `{}`},
		{name: "not recorded", params: `{}`, refuse: schemas.KindRequest, is: exchange.ErrNotRecorded},
		{
			name: "outcome not recorded", params: `{}`, result: `{}`, refuse: schemas.KindOutcome, is: exchange.ErrNotRecorded,
			want: "request success 0", gets: `{}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{refuse: test.refuse}
			runner, err := exchange.New(exchange.Options{
				Plan: func() *chain.Plan { return p }, Recorder: l, Server: "files", Request: schemas.Sending,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gets := ""
			back, err := runner.Do(ctx, &exchange.Request{Method: "tools/call", Params: jsonx.Value(test.params)},
				func(_ context.Context, params exchange.Message) (jsonx.Value, error) {
					if gets = tellMessage(params); test.cancel {
						cancel()
					}
					if test.result == "" {
						return nil, test.err
					}
					return jsonx.Value(test.result), test.err
				})
			if got := tellMessage(back); l.tell() != test.want || gets != test.gets || got != test.back {
				t.Errorf("recorded %q, made %q, came back %q\nwant %q, %q, %q", l.tell(), gets, got, test.want, test.gets, test.back)
			}
			denied, isDenied := errors.AsType[*chain.DeniedError](err)
			switch {
			case test.denied != nil && !isDenied, test.is != nil && !errors.Is(err, test.is), test.err != nil && err == nil:
				t.Errorf("the error is %v", err)
			case test.denied != nil:
				denied.Denial = chain.Denial{}
				if diff := cmp.Diff(test.denied, denied); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
			case test.err == nil && test.is == nil && err != nil:
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func tellMessage(m exchange.Message) string {
	if m.Changed {
		return string(m.Payload) + " changed"
	}
	return string(m.Payload)
}

func TestPanicIsRecorded(t *testing.T) {
	t.Parallel()
	p, l := plan(t), &ledger{}
	runner, err := exchange.New(exchange.Options{Plan: func() *chain.Plan { return p }, Recorder: l, Server: "files", Request: schemas.Receiving})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not go through")
			}
		}()
		_, _ = runner.Do(t.Context(), &exchange.Request{Method: "tools/call"}, func(context.Context, exchange.Message) (jsonx.Value, error) { panic("boom") })
	}()
	if got, want := l.tell(), "request success 0; outcome not_run error -32603"; got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
	if d := l.records[0].Event.Operation; d.Direction != schemas.Receiving {
		t.Errorf("the request went %s", d.Direction)
	}
}

// Without a recorder the sinks run in the background.
func TestWithoutRecorder(t *testing.T) {
	t.Parallel()
	p, background := plan(t), chain.NewBackground(nil)
	runner, err := exchange.New(exchange.Options{
		Plan: func() *chain.Plan { return p }, Background: background, Server: "files", Request: schemas.Sending, Events: []string{"tools/*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !runner.Due("tools/list") || runner.Due("prompts/list") || runner.Due("ping") {
		t.Error("the filter of events does not hold")
	}
	next := func(context.Context, exchange.Message) (jsonx.Value, error) { return jsonx.Value(`{}`), nil }
	if _, err := runner.Do(t.Context(), &exchange.Request{Method: "tools/call"}, next); err != nil {
		t.Fatal(err)
	}
	if err := background.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := background.Stats(); got.Finished != 2 {
		t.Errorf("stats are %+v, want one result for each phase", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	none := func() *chain.Plan { return nil }
	for name, o := range map[string]exchange.Options{
		"plan": {}, "recorder": {Plan: none}, "server": {Plan: none, Recorder: &ledger{}},
		"direction": {Plan: none, Recorder: &ledger{}, Server: "s", Request: "up"},
	} {
		if _, err := exchange.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A result that the typed value cannot hold is not handed on, and the outcome says so.
func TestTypedResultThatDoesNotFit(t *testing.T) {
	t.Parallel()
	type result struct {
		X string `json:"x"`
	}
	server, err := interceptor.New(nil, interceptor.Mutator(interceptor.Descriptor{Name: "m", Hooks: interceptor.OnResponse("tools/call")},
		func(context.Context, *interceptor.Call) (interceptor.Mutation, error) {
			return interceptor.Modified(jsonx.Value(`{"x":7}`)), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	set, err := chain.NewSet(chain.SetOptions{Hosts: []chain.HostSpec{{Ref: schemas.HostRef{Host: "h"}, Connect: chain.Local(server)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	runner, err := exchange.New(exchange.Options{Plan: set.Current, Recorder: l, Server: "s", Request: schemas.Sending})
	if err != nil {
		t.Fatal(err)
	}
	got, err := exchange.DoTyped(t.Context(), runner, exchange.Request{Method: "tools/call"}, &struct{}{},
		func(context.Context, *struct{}) (*result, error) { return &result{X: "a"}, nil })
	if err == nil || got != nil {
		t.Errorf("a result that does not fit gives %v, %v", got, err)
	}
	if want := "request not_run 0; outcome success error -32603"; l.tell() != want {
		t.Errorf("recorded %q, want %q", l.tell(), want)
	}
}
