package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
)

const asks = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"who?"}},"roots":{"method":"roots/list"}},"requestState":"opaque"}}`

func askingPeer(t *testing.T) *rawPeer {
	t.Helper()
	return newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		answer := asks
		if strings.Contains(string(body), "opaque") {
			answer = `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}`
		}
		answerJSON(answer)(w, nil, nil)
	})
}

const (
	firstRound  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`
	secondRound = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","requestState":"opaque","inputResponses":{"who":{"action":"accept","content":{"name":"Ann"}},"roots":{"roots":[]}}}}`
)

// TestRounds: what a server asks by a result, and the client answers by a retry, is intercepted like
// any request of a server.
func TestRounds(t *testing.T) {
	t.Parallel()
	p := &fakePlan{
		matches: func(event string, _ schemas.Phase) bool { return event == "elicitation/create" },
		run: func(_ context.Context, in chain.Input) chain.Result {
			return chain.Result{Modified: true, Payload: replace(replace(in.Payload, "who?", "WHO?"), "Ann", "Bob")}
		},
	}
	peer := askingPeer(t)
	g := serve(t, Options{Backends: httpBackend(peer.url, p)})
	_, _, body := postRaw(t, g.url, []byte(firstRound))
	if want := strings.ReplaceAll(asks, "who?", "WHO?"); string(body) != want {
		t.Errorf("the client got %s, want %s", body, want)
	}
	postRaw(t, g.url, []byte(secondRound))
	if want := strings.ReplaceAll(secondRound, "Ann", "Bob"); string(peer.requests()[1]) != want {
		t.Errorf("the server got %s, want %s", peer.requests()[1], want)
	}
	want := []string{
		"request tools/call", "request elicitation/create", "request roots/list", "outcome tools/call allowed ",
		"outcome elicitation/create allowed ", "outcome roots/list allowed ", "request tools/call", "outcome tools/call allowed ",
	}
	if diff := cmp.Diff(want, g.ledger.lines()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	all := g.ledger.records()
	outer := all[0].Event.Correlation
	for _, rec := range all {
		ev := rec.Event
		if ev.Correlation.Call != outer.Exchange {
			t.Errorf("%s %s belongs to call %s, want %s", ev.Kind, ev.Operation.Event, ev.Correlation.Call, outer.Exchange)
		}
		if inner := ev.Operation.Event != methodToolsCall; inner != ev.Operation.Reverse || inner != (ev.Correlation.Parent == outer.Exchange) {
			t.Errorf("%s %s: reverse %v, parent %s", ev.Kind, ev.Operation.Event, ev.Operation.Reverse, ev.Correlation.Parent)
		}
	}
}

// TestRoundsDenied: a blocked entry blocks the message that carries it.
func TestRoundsDenied(t *testing.T) {
	t.Parallel()
	for _, phase := range []schemas.Phase{schemas.PhaseRequest, schemas.PhaseResponse} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			p := &fakePlan{
				matches: func(event string, at schemas.Phase) bool { return event == "roots/list" && at == phase },
				run:     func(_ context.Context, in chain.Input) chain.Result { return deny(in) },
			}
			peer := askingPeer(t)
			g := serve(t, Options{Backends: httpBackend(peer.url, p)})
			_, _, body := postRaw(t, g.url, []byte(firstRound))
			if phase == schemas.PhaseResponse {
				// Also where the gateway does not know the first round any more.
				g.table.Load().lanes["b"].rounds.take(roundKey(g.opts.Key.Pseudonym("state", "opaque"), []byte(`"roots"`))).fail(t.Context(), causeNoAnswer, "")
				_, _, body = postRaw(t, g.url, []byte(secondRound))
			}
			if msg := mustParse(t, body); msg.RPCError() == nil || msg.RPCError().Code != -32602 {
				t.Errorf("the client got %s", body)
			}
			for _, got := range peer.requests() {
				if strings.Contains(string(got), "inputResponses") {
					t.Error("the server got the answers")
				}
			}
			g.ledger.waitOutcome(t, "roots/list", schemas.OutcomeDenied)
			if rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeDenied); rec.Event.Decision.Cause != causeRound {
				t.Errorf("cause %q", rec.Event.Decision.Cause)
			}
		})
	}
}

// TestRoundsParked: a drain does not wait for users who think; what they were asked ends as stopped.
func TestRoundsParked(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Backends: httpBackend(askingPeer(t).url, nil)})
	postRaw(t, g.url, []byte(firstRound))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := g.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	g.ledger.waitOutcome(t, "elicitation/create", schemas.OutcomeStopped)
}

// TestRoundsSDK: a real client and server do two rounds.
func TestRoundsSDK(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stateless", "stdio"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{Backends: []Backend{backend(t, kind, nil)}})
			cs := connect(t, g.url, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
			}}, version20260728)
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "rounds", Arguments: map[string]any{}})
			if got := textOf(t, res, err); got != "Ann" {
				t.Errorf("got %q, want Ann", got)
			}
			rec := g.ledger.waitOutcome(t, "elicitation/create", schemas.OutcomeAllowed)
			if !rec.Event.Operation.Reverse {
				t.Errorf("operation %+v", rec.Event.Operation)
			}
		})
	}
}
