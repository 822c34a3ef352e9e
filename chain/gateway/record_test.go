package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestRecords: the sealed part holds closed sets, our names and pseudonyms; what came from outside
// lies in open items.
func TestRecords(t *testing.T) {
	t.Parallel()
	var seen chain.Input
	p := &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == "acme/secret-method" && phase == schemas.PhaseRequest
		},
		run: func(_ context.Context, in chain.Input) chain.Result {
			seen = in
			return chain.Result{
				Modified: true, Payload: jsonx.Value(`{"uri":"y"}`), Warnings: 1,
				Steps:       []chain.Step{{Index: 2, Payload: jsonx.Value(`{"step":2}`)}},
				Invocations: []schemas.Invocation{{Interceptor: "acme/dlp"}},
				Details:     []schemas.InvocationDetail{{Interceptor: "acme/dlp", Messages: jsonx.Value(`["m"]`)}},
				PlanDigest:  seal.Hash{7},
			}
		},
	}
	peer := newRawPeer(t, answerJSON(`{"jsonrpc":"2.0","id":"private-id","result":{"isError":true}}`))
	key := seal.Key{1, 2, 3}
	g := serve(t, Options{
		Backends: httpBackend(peer.url, p), Key: key, Tenant: "acme", Gateway: "edge",
		Identify: func(*http.Request) (Caller, error) {
			return Caller{Principal: chain.Principal{Type: "user", ID: "alice", Claims: map[string]string{"dept": "ops"}}, VerifiedBy: "jwt"}, nil
		},
	})
	postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":"private-id","method":"acme/secret-method","params":{"uri":"x","_meta":{"traceparent":"`+traceparent+
		`","io.modelcontextprotocol/clientInfo":{"name":"my client","version":"3"},"io.modelcontextprotocol/aiInvocation":{"turnId":"t"}}}}`),
		wire.HeaderSessionID, "private-session", wire.HeaderProtocolVersion, "1999-01-01", "User-Agent", "agent/1")
	all := g.ledger.records()
	if len(all) != 2 {
		t.Fatalf("%d records, want 2: %v", len(all), g.ledger.lines())
	}
	for i, rec := range all {
		ev := rec.Event
		want := &schemas.Correlation{
			Exchange: ev.Correlation.Exchange, Call: ev.Correlation.Exchange,
			Session: key.Pseudonym("session", "private-session"), RequestID: key.Pseudonym("request", `"private-id"`),
			TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7", ProtocolVersion: "other", Transport: "http",
		}
		if diff := cmp.Diff(want, ev.Correlation); diff != "" {
			t.Errorf("correlation of %s (-want +got):\n%s", ev.Kind, diff)
		}
		if diff := cmp.Diff(&schemas.Actor{Type: "user", Pseudonym: key.Pseudonym("principal", "alice"), VerifiedBy: "jwt"}, ev.Actor); diff != "" {
			t.Errorf("actor (-want +got):\n%s", diff)
		}
		op := &schemas.Operation{
			Event: "other", Server: "b",
			Phase: []schemas.Phase{schemas.PhaseRequest, schemas.PhaseResponse}[i], Direction: []schemas.Direction{schemas.Sending, schemas.Receiving}[i],
		}
		if diff := cmp.Diff(op, ev.Operation); diff != "" {
			t.Errorf("operation (-want +got):\n%s", diff)
		}
		if ev.Tenant != "acme" || ev.Gateway != "edge" {
			t.Errorf("tenant %q, gateway %q", ev.Tenant, ev.Gateway)
		}
		sealed, err := jsonx.Marshal(&ev)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"private", "secret-method", "alice", "my client", "agent/1", "1999"} {
			if strings.Contains(string(sealed), word) {
				t.Errorf("the sealed part of %s holds %q", ev.Kind, word)
			}
		}
	}
	request, outcome := all[0], all[1]
	if seen.Interception != request.Event.ID || seen.Context.SessionID != "private-session" || seen.Context.Principal.ID != "alice" || seen.Context.Timestamp.IsZero() {
		t.Errorf("the plan was given %+v", seen)
	}
	roles := []string{}
	for _, it := range request.Items {
		roles = append(roles, it.Name())
	}
	if diff := cmp.Diff([]string{"payload.before", "payload.after", "payload.step.2", "detail", "context"}, roles); diff != "" {
		t.Errorf("items of the request (-want +got):\n%s", diff)
	}
	var c schemas.Context
	if err := jsonx.UnmarshalStrict(item(request, schemas.RoleContext), &c); err != nil {
		t.Fatal(err)
	}
	if c.ClientAddress == "" {
		t.Error("no client address")
	}
	c.ClientAddress = ""
	want := schemas.Context{
		SessionID: "private-session", RequestID: jsonx.Value(`"private-id"`), Method: "acme/secret-method", PrincipalType: "user", Principal: "alice",
		Claims: map[string]string{"dept": "ops"}, ClientName: "my client", ClientVersion: "3", UserAgent: "agent/1", Protocol: "1999-01-01",
		Asserted: jsonx.Value(`{"turnId":"t"}`),
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
	if d := request.Event.Decision; d.PlanDigest != (seal.Hash{7}) || d.Warnings != 1 || !d.Modified {
		t.Errorf("decision of the request %+v", d)
	}
	d := outcome.Event.Decision
	if d.Status != schemas.StatusNotRun || d.PlanDigest != (seal.Hash{1}) || d.StartedAt == 0 || d.IsError || d.TotalUS <= 0 {
		t.Errorf("decision of the outcome %+v", d)
	}
	if string(peer.requests()[0]) == "" || !strings.Contains(string(peer.requests()[0]), `"params":{"uri":"y"}`) {
		t.Errorf("the server got %s", peer.requests()[0])
	}
}

// TestUnauthorized: who is refused is recorded, and told so.
func TestUnauthorized(t *testing.T) {
	t.Parallel()
	peer := newRawPeer(t, answerJSON(`{}`))
	g := serve(t, Options{Backends: httpBackend(peer.url, nil), Identify: func(*http.Request) (Caller, error) { return Caller{}, http.ErrNoCookie }})
	if status, _, _ := postRaw(t, g.url, []byte(pingText)); status != 401 || len(peer.requests()) != 0 {
		t.Errorf("status %d, %d requests at the server", status, len(peer.requests()))
	}
	if rec := g.ledger.waitOutcome(t, "other", schemas.OutcomeDenied); rec.Event.Decision.Cause != causeUnauthorized {
		t.Errorf("cause %q", rec.Event.Decision.Cause)
	}
}

// TestCallID: the rounds of one call (2026-07-28) have one call id.
func TestCallID(t *testing.T) {
	t.Parallel()
	peer := newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		answer := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{},"requestState":"opaque"}}`
		if strings.Contains(string(body), "opaque") {
			answer = `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}`
		}
		answerJSON(answer)(w, nil, nil)
	})
	g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
	postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`))
	postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","requestState":"opaque"}}`))
	postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`))
	all := g.ledger.records()
	first, second, third := all[0].Event.Correlation, all[2].Event.Correlation, all[4].Event.Correlation
	if first.Call != first.Exchange || second.Call != first.Call || second.Exchange == first.Exchange || third.Call != third.Exchange {
		t.Errorf("calls %v %v %v of exchanges %v %v %v", first.Call, second.Call, third.Call, first.Exchange, second.Exchange, third.Exchange)
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, trace, span string }{
		{traceparent, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"},
		{"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"},
		{"", "", ""},
		{"00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "", ""},
		{"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", ""},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "", ""},
		{"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "", ""},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", "", ""},
		{"00-4bf92f3577b34da6a3ce929d0e0e473 -00f067aa0ba902b7-01", "", ""},
	} {
		if trace, span := wire.Trace(c.in); trace != c.trace || span != c.span {
			t.Errorf("wire.Trace(%q) = %q, %q, want %q, %q", c.in, trace, span, c.trace, c.span)
		}
	}
}
