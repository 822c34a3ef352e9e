package gateway

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// seenContexts is a plan that keeps what it was told of each request for a tool.
type seenContexts struct {
	mu  sync.Mutex // guards got
	got []chain.Context
}

func (s *seenContexts) plan() *fakePlan {
	return &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == methodToolsCall && phase == schemas.PhaseRequest
		},
		run: func(_ context.Context, in chain.Input) chain.Result {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got = append(s.got, in.Context)
			return chain.Result{}
		},
	}
}

func (s *seenContexts) all() []chain.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// TestTraceMade: a real client without a trace gets one for each call, by the id of the call, whatever the way.
func TestTraceMade(t *testing.T) {
	t.Parallel()
	eachWayWith(t, func(o *Options) {
		o.Rules.Trace = TraceForward
		o.Rules.Principal = chain.Principal{Type: "service", ID: "desk-1", Claims: map[string]string{"site": "north"}}
	}, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		if got := callTool(t, cs, "echo", "hi"); got != "hi" {
			t.Errorf("the tool said %q, want hi", got)
		}
		rec := w.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed)
		ids := rec.Event.Correlation
		if want := hex.EncodeToString(ids.Call[:]); ids.TraceID != want || len(ids.SpanID) != 16 {
			t.Errorf("trace %q, span %q; want trace %q", ids.TraceID, ids.SpanID, want)
		}
		if rec.Event.Actor.Type != "service" || rec.Event.Actor.VerifiedBy != "" {
			t.Errorf("actor %+v, want the configured service, verified by nobody", rec.Event.Actor)
		}
	})
}

// TestTraceHandedOn: a relayed request carries the made trace in its header, and its body is untouched; one that has a
// trace keeps it.
func TestTraceHandedOn(t *testing.T) {
	t.Parallel()
	const other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for name, c := range map[string]struct {
		rule           Trace
		meta, header   string
		state          string
		want, wantHead string // trace id; empty: a made one
	}{
		"none":             {},
		"invalid":          {header: "00-zz", state: "a=b"},
		"header":           {header: other, state: "a=b", want: other, wantHead: other},
		"meta":             {meta: other, want: other, wantHead: "none"},
		"meta over header": {meta: other, header: traceparent, want: other, wantHead: traceparent},
		"bad meta":         {meta: "x", header: other, want: other, wantHead: other},
		"forward":          {rule: TraceForward}, // a header is enough where there is one
		"off":              {rule: TraceOff, want: "none", wantHead: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var header http.Header
			peer := newRawPeer(t, func(w http.ResponseWriter, r *http.Request, body []byte) {
				mu.Lock()
				header = r.Header.Clone()
				mu.Unlock()
				answerJSON(`{"jsonrpc":"2.0","id":1,"result":{}}`)(w, r, body)
			})
			g := serve(t, Options{Backends: httpBackend(peer.url, nil), Rules: Rules{Trace: c.rule}})
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
			if c.meta != "" {
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"traceparent":"` + c.meta + `"}}}`
			}
			var headers []string
			if c.header != "" {
				headers = append(headers, "Traceparent", c.header)
			}
			if c.state != "" {
				headers = append(headers, "Tracestate", c.state)
			}
			postRaw(t, g.url, []byte(body), headers...)
			ids := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed).Event.Correlation
			made := "00-" + ids.TraceID + "-" + ids.SpanID + "-01"
			want := func(s string) string {
				switch s {
				case "":
					return made
				case "none":
					return ""
				}
				return s
			}
			traceID, _ := wire.Trace(want(c.want))
			if ids.TraceID != traceID {
				t.Errorf("recorded trace %q, want %q", ids.TraceID, traceID)
			}
			mu.Lock()
			defer mu.Unlock()
			if got := header.Get("Traceparent"); got != want(c.wantHead) {
				t.Errorf("the server got traceparent %q, want %q", got, want(c.wantHead))
			}
			if c.want != "" && header.Get("Tracestate") != c.state || c.want == "" && header.Get("Tracestate") != "" {
				t.Errorf("the server got tracestate %q", header.Get("Tracestate"))
			}
			if diff := cmp.Diff(body, string(peer.requests()[0])); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTraceOfChain: two gateways in a row have one trace, which the outer one made.
func TestTraceOfChain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ backend, version string }{{"http", legacy}, {"stateless", version20260728}} {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			inner := serve(t, Options{Backends: []Backend{backend(t, c.backend, nil)}})
			outer := serve(t, Options{Backends: httpBackend(inner.url, nil)})
			cs := connect(t, outer.url, nil, c.version)
			callTool(t, cs, "echo", "one")
			callTool(t, cs, "echo", "two")
			traces := func(f *front) (ids []string) {
				f.ledger.waitFor(t, "two calls", func(all []*schemas.Record) bool {
					ids = nil
					for _, r := range all {
						if r.Event.Kind == schemas.KindOutcome && r.Event.Operation.Event == methodToolsCall {
							ids = append(ids, r.Event.Correlation.TraceID)
						}
					}
					return len(ids) == 2
				})
				return ids
			}
			out, in := traces(outer), traces(inner)
			if diff := cmp.Diff(out, in); diff != "" {
				t.Errorf("traces of the inner gateway (-outer +inner):\n%s", diff)
			}
			if out[0] == out[1] || out[0] == "" {
				t.Errorf("two calls have traces %q and %q, want two", out[0], out[1])
			}
		})
	}
}

// TestTraceOfLines: to a server on lines a made trace goes only where the rules say so, and is recorded as the gateway's work.
func TestTraceOfLines(t *testing.T) {
	t.Parallel()
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	for _, rule := range []Trace{"", TraceForward} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			e := newEnds(t, Options{Rules: Rules{Trace: rule}})
			e.say(t, e.client, body)
			raw, err := e.server.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			e.say(t, e.server, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			e.hear(t, e.client, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			ids := e.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed).Event.Correlation
			want := body
			if rule == TraceForward {
				want = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"traceparent":"00-` + ids.TraceID + "-" + ids.SpanID + `-01"},"name":"x"}}`
			}
			if string(raw) != want {
				t.Errorf("the server got %s, want %s", raw, want)
			}
			work := e.records()[0].Event.Invocations
			if rule == "" && len(work) > 0 || rule == TraceForward && (len(work) != 1 || work[0].Host != amendHost || work[0].Interceptor != amendTrace) {
				t.Errorf("recorded work %+v", work)
			}
		})
	}
}

// TestSenderOfMessage: in a session at a stdio server each request is its sender's, with the trace that it came with.
func TestSenderOfMessage(t *testing.T) {
	t.Parallel()
	s := &seenContexts{}
	g := serve(t, Options{
		Backends: []Backend{backend(t, "stdio", s.plan())},
		Identify: func(r *http.Request) (Caller, error) {
			return Caller{Principal: chain.Principal{Type: "user", ID: r.Header.Get("X-User")}, VerifiedBy: "proxy"}, nil
		},
	})
	_, h, _ := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+legacy+
		`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`), "X-User", "alice", "Traceparent", traceparent)
	id := h.Get(wire.HeaderSessionID)
	postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), wire.HeaderSessionID, id, "X-User", "alice")
	const other = "0af7651916cd43dd8448eb211c80319c"
	for _, user := range []string{"bob", "carol"} {
		_, _, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":"`+user+`","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`),
			wire.HeaderSessionID, id, "X-User", user, "Traceparent", "00-"+other+"-b7ad6b7169203331-01")
		if !strings.Contains(string(body), `"x"`) {
			t.Errorf("%s got %s", user, body)
		}
	}
	all := s.all()
	if len(all) != 2 || all[0].Principal.ID != "bob" || all[1].Principal.ID != "carol" || all[0].TraceID != other || all[0].SessionID != id {
		t.Errorf("the plan was told %+v", all)
	}
}

// TestSessionOfModernClient: what a client of 2026-07-28 calls its session over HTTP is not one.
func TestSessionOfModernClient(t *testing.T) {
	t.Parallel()
	s := &seenContexts{}
	peer := newRawPeer(t, answerJSON(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	g := serve(t, Options{Backends: httpBackend(peer.url, s.plan())})
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"` + version20260728 + `"}}}`
	postRaw(t, g.url, []byte(body), wire.HeaderSessionID, "mine", wire.HeaderProtocolVersion, version20260728)
	if all := s.all(); len(all) != 1 || all[0].SessionID != "" {
		t.Errorf("the plan was told %+v, want no session", all)
	}
}
