package deferred

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func TestWorkerCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		job := newJob(sink, "s-3", `{"name":"buy","arguments":{"n":9007199254740993}}`)
		var got jsonx.Value
		journal, q := &memory{}, newQueue(job)
		stop := start(t, sink, q, hostFunc(func(_ context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
			if name != sink.Name {
				t.Errorf("invoked %q", name)
			}
			got = params
			return jsonx.Value(`{"type":"sink","interceptor":"acme/sink","phase":"request","recorded":true,"metrics":{"bytes":4}}`), nil
		}), journal, testOptions())
		synctest.Wait()
		stop()
		inv := job.Event.Invocations[1]
		want := `{"name":"acme/sink","config":{"level":"high"},"timeoutMs":2000,"event":"tools/call","phase":"request","payload":{"name":"buy","arguments":{"n":9007199254740993}},` +
			`"context":{"principal":{"type":"user","id":"alice","claims":{"dept":"ops"}},` +
			`"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","timestamp":"2026-11-30T12:00:00.000Z","sessionId":"s-3","io.chaintrail/server":"shop"},` +
			`"_meta":{"io.chaintrail/invocationId":"` + inv.ID + `","io.chaintrail/exchange":"` + job.Event.Correlation.Exchange.String() +
			`","io.chaintrail/phase":"request","io.chaintrail/stage":"payload.before","io.chaintrail/attempt":1}}`
		if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf("params differ (-got +want):\n%s", diff)
		}
		records := journal.all()
		if len(records) != 1 {
			t.Fatalf("%d records, want one", len(records))
		}
		e := records[0].Event
		if e.Kind != schemas.KindInvocation || e.Correlation.Interception != job.Event.ID || e.Correlation.Exchange != job.Event.Correlation.Exchange || e.Operation.Target != "buy" {
			t.Errorf("the result does not join with its event: %+v", e)
		}
		inv.State, inv.Recorded, inv.Attempt = schemas.StateFinished, new(true), 1
		if diff := cmp.Diff(e.Invocations, []schemas.Invocation{inv}); diff != "" {
			t.Errorf("invocation differs (-got +want):\n%s", diff)
		}
		if string(records[0].Items[0].Data) != `{"invocations":[{"order":1,"interceptor":"acme/sink","metrics":{"bytes":4}}]}` {
			t.Errorf("detail: %s", records[0].Items[0].Data)
		}
		if acked, naked, _ := q.counts(); acked != 1 || naked != 0 {
			t.Errorf("%d acknowledged, %d given back", acked, naked)
		}
	})
}

func TestWorkerFailures(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ string, _ jsonx.Value) (jsonx.Value, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	tests := []struct {
		name    string
		host    hostFunc
		retries int
		state   schemas.InvocationState
		attempt int
		code    int
		text    string
	}{
		{"error", func(context.Context, string, jsonx.Value) (jsonx.Value, error) { return nil, errors.New("disk full") }, 2, schemas.StateFailed, 3, 0, "disk full"},
		{"no retries", func(context.Context, string, jsonx.Value) (jsonx.Value, error) { return nil, errors.New("disk full") }, 0, schemas.StateFailed, 1, 0, "disk full"},
		{"refused", func(context.Context, string, jsonx.Value) (jsonx.Value, error) {
			return nil, &wire.RPCError{Code: -32602, Message: "unknown interceptor"}
		}, 2, schemas.StateFailed, 1, -32602, "unknown interceptor"},
		{"hang", hang, 1, schemas.StateTimeout, 2, 0, "deadline"},
		{"timeout by the server", func(context.Context, string, jsonx.Value) (jsonx.Value, error) {
			return nil, &wire.RPCError{Code: -32603, Message: "x", Data: jsonx.Value(`{"reason":"timeout"}`)}
		}, 0, schemas.StateTimeout, 1, -32603, "x"},
		{"panic", func(context.Context, string, jsonx.Value) (jsonx.Value, error) { panic("boom") }, 0, schemas.StateFailed, 1, 0, "panicked"},
		{"garbage", func(context.Context, string, jsonx.Value) (jsonx.Value, error) { return jsonx.Value("<html>"), nil }, 1, schemas.StateMalformed, 2, 0, "invalid character"},
		{"no object", func(context.Context, string, jsonx.Value) (jsonx.Value, error) { return jsonx.Value("[1]"), nil }, 0, schemas.StateMalformed, 1, 0, "not an object"},
		{"no flag", func(context.Context, string, jsonx.Value) (jsonx.Value, error) {
			return jsonx.Value(`{"Recorded":true}`), nil
		}, 0, schemas.StateMalformed, 1, 0, "recorded"},
		{"other call", func(context.Context, string, jsonx.Value) (jsonx.Value, error) {
			return jsonx.Value(`{"interceptor":"b","recorded":true}`), nil
		}, 0, schemas.StateMalformed, 1, 0, "interceptor"},
		{"twice", func(context.Context, string, jsonx.Value) (jsonx.Value, error) {
			return jsonx.Value(`{"recorded":true,"recorded":false}`), nil
		}, 0, schemas.StateMalformed, 1, 0, "twice"},
		{"too large", func(context.Context, string, jsonx.Value) (jsonx.Value, error) {
			return jsonx.Value(`{"recorded":true,"x":"` + strings.Repeat("x", 100<<20) + `"}`), nil
		}, 0, schemas.StateMalformed, 1, 0, "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				entry := sink
				entry.Retries = tt.retries
				journal, q := &memory{}, newQueue(newJob(entry, "s", `{}`))
				stop := start(t, entry, q, tt.host, journal, testOptions())
				time.Sleep(time.Minute) // of the bubble
				stop()
				records := journal.all()
				if len(records) != 1 {
					t.Fatalf("%d records, want one", len(records))
				}
				inv := records[0].Event.Invocations[0]
				if inv.State != tt.state || inv.Attempt != tt.attempt || inv.ErrorCode != tt.code {
					t.Errorf("state %s after %d tries with code %d, want %s, %d, %d", inv.State, inv.Attempt, inv.ErrorCode, tt.state, tt.attempt, tt.code)
				}
				if detail := string(records[0].Items[0].Data); !strings.Contains(detail, tt.text) || len(detail) > 8192 {
					t.Errorf("the detail lacks %q: %.200s", tt.text, detail)
				}
				if acked, _, _ := q.counts(); acked != 1 {
					t.Error("the job was not acknowledged: a failed invocation is final too")
				}
			})
		})
	}
}

func TestWorkerSucceedsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		journal, q, calls := &memory{}, newQueue(newJob(sink, "s", `{}`)), 0
		stop := start(t, sink, q, hostFunc(func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
			calls++
			switch {
			case calls <= 5:
				return nil, chain.ErrLost // no try at all
			case calls == 6:
				return jsonx.Value("no"), nil
			}
			if !strings.Contains(string(params), `attempt":2}`) {
				t.Errorf("params do not tell the attempt: %s", params)
			}
			return recorded(ctx, name, params)
		}), journal, testOptions())
		time.Sleep(time.Minute)
		stop()
		inv := journal.all()[0].Event.Invocations[0]
		if inv.State != schemas.StateFinished || inv.Attempt != 2 || len(journal.all()[0].Items) != 0 {
			t.Errorf("state %s at attempt %d with %d items, want finished at the second without a trace of the first", inv.State, inv.Attempt, len(journal.all()[0].Items))
		}
	})
}

func TestWorkerOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for i := range 20 {
			q.put(newJob(sink, "s"+strconv.Itoa(i%4), fmt.Sprintf(`{"n":%d}`, i/4)))
		}
		var mu sync.Mutex
		order, busy, now, most := map[string][]string{}, map[string]bool{}, 0, 0
		host := hostFunc(func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
			about, _ := jsonx.Lookup(params, "context")
			session, _ := jsonx.Lookup(about, "sessionId")
			payload, _ := jsonx.Lookup(params, "payload")
			mu.Lock()
			now++
			most = max(most, now)
			if busy[string(session)] {
				t.Errorf("session %s is served twice at a time", session)
			}
			busy[string(session)] = true
			order[string(session)] = append(order[string(session)], string(payload))
			mu.Unlock()
			time.Sleep(time.Duration(len(payload)) * time.Millisecond)
			mu.Lock()
			now--
			busy[string(session)] = false
			mu.Unlock()
			return recorded(ctx, name, params)
		})
		opts := testOptions()
		opts.Parallel = 3
		journal := &memory{}
		stop := start(t, sink, q, host, journal, opts)
		time.Sleep(time.Minute)
		stop()
		for session, got := range order {
			want := []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("session %s was not served in order (-got +want):\n%s", session, diff)
			}
		}
		if most != 3 || len(journal.all()) != 20 {
			t.Errorf("%d at a time and %d results, want 3 and 20", most, len(journal.all()))
		}
	})
}

func TestWorkerHangDelaysOnlyItsLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, journal := newQueue(newJob(sink, "slow", `{}`), newJob(sink, "quick", `{}`)), &memory{}
		opts := testOptions()
		opts.Timeout, opts.Heartbeat = time.Hour, time.Second
		stop := start(t, sink, q, hostFunc(func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
			if strings.Contains(string(params), `"sessionId":"slow"`) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return recorded(ctx, name, params)
		}), journal, opts)
		time.Sleep(time.Minute)
		if n := len(journal.all()); n != 1 {
			t.Errorf("%d results while one session hangs, want one", n)
		}
		if _, _, beats := q.counts(); beats < 55 {
			t.Errorf("the job in hand was kept %d times in a minute, want one a second", beats)
		}
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > DefaultDrain {
			t.Errorf("the end took %v, more than the drain time", took)
		}
		if acked, naked, _ := q.counts(); acked != 1 || naked != 1 || len(journal.all()) != 1 {
			t.Errorf("%d acknowledged, %d given back, %d results; the hanging one has no result and goes back", acked, naked, len(journal.all()))
		}
	})
}

func TestWorkerJournalsBeforeAck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(newJob(sink, "s", `{}`))
		journal := &memory{fail: func(n int) error {
			if acked, _, _ := q.counts(); acked != 0 {
				t.Error("acknowledged before it was journaled")
			}
			if n < 4 {
				return errors.New("journal is full")
			}
			return nil
		}}
		calls := 0
		stop := start(t, sink, q, hostFunc(func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
			calls++
			return recorded(ctx, name, params)
		}), journal, testOptions())
		time.Sleep(time.Minute)
		stop()
		if acked, _, _ := q.counts(); acked != 1 || calls != 1 || len(journal.all()) != 1 {
			t.Errorf("%d acknowledged, %d calls, %d results, want one of each", acked, calls, len(journal.all()))
		}
	})
}

func TestWorkerHandedOutAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		job := newJob(sink, "s", `{}`)
		q, journal, calls := newQueue(job), &memory{}, 0
		q.fail = errors.New("no answer")
		stop := start(t, sink, q, hostFunc(func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
			calls++
			return recorded(ctx, name, params)
		}), journal, testOptions())
		time.Sleep(time.Minute)
		q.mu.Lock()
		q.fail = nil
		q.mu.Unlock()
		q.put(job)
		time.Sleep(time.Minute)
		stop()
		if acked, _, _ := q.counts(); acked != 1 || calls != 1 || len(journal.all()) != 1 {
			t.Errorf("%d acknowledged, %d calls, %d results, want one of each", acked, calls, len(journal.all()))
		}
	})
}

func TestWorkerPassesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := sink
		other.Name = "acme/other"
		q, journal := newQueue(newJob(other, "s", `{}`), Job{}), &memory{}
		stop := start(t, sink, q, hostFunc(recorded), journal, testOptions())
		synctest.Wait()
		stop()
		if acked, _, _ := q.counts(); acked != 2 || len(journal.all()) != 0 {
			t.Errorf("%d acknowledged, %d results, want 2 and none: it is not for this interceptor", acked, len(journal.all()))
		}
	})
}

func TestWorkerPayloads(t *testing.T) {
	t.Parallel()
	full := schemas.OpenHeader{Role: schemas.RoleBefore, Salt: seal.NewSalt(), Keep: schemas.KeepFull}
	snapshot := schemas.EntryItem{Header: schemas.OpenHeader{Role: schemas.RoleSnapshot, Of: "payload.before"}, Data: []byte("sealed")}
	truth := []byte(`{"secret":1}`)
	redacted := func(items ...schemas.EntryItem) Job {
		job := keptJob(sink, "s", append(items, schemas.EntryItem{Header: full, Data: truth})...)
		job.Event.Open[0].Keep, job.Event.Open[0].Kept = schemas.KeepRedacted, seal.Hash{1}
		return job
	}
	changed := newJob(sink, "s", `{"a":1}`)
	changed.Event.Open[0].Commitment = seal.Hash{7}
	gone := newJob(sink, "s", `{}`)
	gone.Items = func(context.Context) ([]schemas.EntryItem, error) { return nil, nil }
	tests := []struct {
		name   string
		job    Job
		open   Opener
		state  schemas.InvocationState
		reason schemas.SkipReason
		text   string
	}{
		{"erased", gone, nil, schemas.StateSkipped, schemas.SkipErased, ""},
		{"snapshot expired", redacted(), nil, schemas.StateSkipped, schemas.SkipErased, ""},
		{"snapshot", redacted(snapshot), func(schemas.EntryItem) ([]byte, error) { return truth, nil }, schemas.StateFinished, "", ""},
		{"snapshot of another value", redacted(snapshot), func(schemas.EntryItem) ([]byte, error) { return []byte(`{"secret":2}`), nil }, schemas.StateFailed, "", "committed"},
		{"snapshot of another key", redacted(snapshot), func(schemas.EntryItem) ([]byte, error) { return nil, errors.New("other key") }, schemas.StateFailed, "", "other key"},
		{"no key", redacted(snapshot), nil, schemas.StateFailed, "", "snapshot key"},
		{"changed", changed, nil, schemas.StateFailed, "", "committed"},
		{"not JSON", newJob(sink, "s", `{"a":`), nil, schemas.StateFailed, "", "payload"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				journal, q := &memory{}, newQueue(tt.job)
				w := NewWorker(Target{Entry: sink}, Deps{Source: q, Recorder: journal, Open: tt.open, Host: hostFunc(func(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
					if payload, _ := jsonx.Lookup(params, "payload"); string(payload) != string(truth) {
						t.Errorf("invoked with %s", payload)
					}
					return recorded(ctx, name, params)
				})}, testOptions())
				done := make(chan error)
				go func() { done <- w.Run(t.Context()) }()
				synctest.Wait()
				close(q.jobs)
				if err := <-done; !errors.Is(err, io.EOF) {
					t.Errorf("Run = %v at the end of its source", err)
				}
				if len(journal.all()) != 1 {
					t.Fatalf("%d results", len(journal.all()))
				}
				rec := journal.all()[0]
				inv := rec.Event.Invocations[0]
				if inv.State != tt.state || inv.SkipReason != tt.reason {
					t.Errorf("state %s, reason %q, want %s, %q", inv.State, inv.SkipReason, tt.state, tt.reason)
				}
				if tt.text != "" && (len(rec.Items) == 0 || !strings.Contains(string(rec.Items[0].Data), tt.text)) {
					t.Errorf("the detail lacks %q: %v", tt.text, rec.Items)
				}
			})
		})
	}
}

func TestWorkerVerdicts(t *testing.T) {
	t.Parallel()
	validator := schemas.PlanEntry{Host: "h", Name: "v", Type: schemas.TypeValidation, Mode: schemas.ModeAudit}
	mutator := schemas.PlanEntry{Host: "h", Name: "m", Type: schemas.TypeMutation, Mode: schemas.ModeAudit}
	tests := []struct {
		name   string
		entry  schemas.PlanEntry
		answer string
		want   schemas.Invocation
		detail string
	}{
		{
			"would block", validator, `{"valid":false,"severity":"error","messages":[{"message":"no","severity":"error"},{"message":"hm","severity":"warn"}]}`,
			schemas.Invocation{State: schemas.StateFinished, Valid: new(false), Severity: schemas.SeverityError, Errors: 1, Warnings: 1},
			`"messages":[{"message":"no","severity":"error"},{"message":"hm","severity":"warn"}]`,
		},
		{"would pass", validator, `{"type":"validation","valid":true}`, schemas.Invocation{State: schemas.StateFinished, Valid: new(true)}, ""},
		{
			"would change", mutator, `{"modified":true,"payload":{"a":2}}`,
			schemas.Invocation{State: schemas.StateFinished, Modified: new(true)},
			`"payload":{"a":2}`,
		},
		{"would not", mutator, `{"modified":false,"payload":{"a":1}}`, schemas.Invocation{State: schemas.StateFinished, Modified: new(false)}, ""},
		{"says it would not", mutator, `{"modified":false,"payload":{"a":3}}`, schemas.Invocation{State: schemas.StateMalformed}, `"error":`},
		{
			"odd text", mutator, `{"modified":true,"payload":{"a":"\ud800"}}`,
			schemas.Invocation{State: schemas.StateFinished, Modified: new(true)},
			`"error":"what it said cannot be kept`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				journal, q := &memory{}, newQueue(newJob(tt.entry, "s", `{"a":1}`))
				stop := start(t, tt.entry, q, hostFunc(func(context.Context, string, jsonx.Value) (jsonx.Value, error) {
					return jsonx.Value(tt.answer), nil
				}), journal, testOptions())
				synctest.Wait()
				stop()
				rec := journal.all()[0]
				got := rec.Event.Invocations[0]
				got = schemas.Invocation{
					State: got.State, Valid: got.Valid, Modified: got.Modified, Severity: got.Severity, Errors: got.Errors, Warnings: got.Warnings,
				}
				if tt.want.State == schemas.StateMalformed {
					got.Modified = nil
				}
				if diff := cmp.Diff(got, tt.want); diff != "" {
					t.Errorf("invocation differs (-got +want):\n%s", diff)
				}
				switch {
				case tt.detail == "" && len(rec.Items) != 0:
					t.Errorf("there is a detail: %s", rec.Items[0].Data)
				case tt.detail != "" && (len(rec.Items) != 1 || !strings.Contains(string(rec.Items[0].Data), tt.detail)):
					t.Errorf("the detail lacks %s: %v", tt.detail, rec.Items)
				}
			})
		})
	}
}

func TestSeenIsBounded(t *testing.T) {
	t.Parallel()
	s := newSeen(3)
	for i := range 10 {
		s.add(strconv.Itoa(i))
		s.add(strconv.Itoa(i))
	}
	if len(s.ids) != 3 || !s.has("9") || !s.has("7") || s.has("6") {
		t.Errorf("remembers %v, want the last three", s.ids)
	}
}
