package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
)

// TestProgress: three notes arrive once each, in order, before the answer.
func TestProgress(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, w way) {
		t.Helper()
		notes := make(chan float64, 8)
		opts := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			notes <- r.Params.Progress // the client hands them over behind the answer, too
		}}
		cs := w.connect(t, opts)
		params := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{}}
		params.SetProgressToken("token")
		res, err := cs.CallTool(t.Context(), params)
		if s := textOf(t, res, err); s != "done" {
			t.Errorf("got %q, want done", s)
		}
		if w.json { // this server has no stream to send them on
			return
		}
		got := []float64{<-notes, <-notes, <-notes}
		if diff := cmp.Diff([]float64{1, 2, 3}, got); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		if len(notes) > 0 {
			t.Error("a note came twice")
		}
	})
}

// TestElicitation: a request of the server is intercepted in both phases.
func TestElicitation(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	p := &fakePlan{
		matches: func(event string, _ schemas.Phase) bool { return event == "elicitation/create" },
		run: func(_ context.Context, in chain.Input) chain.Result {
			mu.Lock()
			defer mu.Unlock()
			seen[string(in.Phase)+" "+string(in.Direction)] = true
			return chain.Result{Modified: true, Payload: replace(in.Payload, "Ann", "Bob")}
		},
	}
	eachLegacyWay(t, p, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		}})
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit", Arguments: map[string]any{}})
		if s := textOf(t, res, err); s != "accept Bob" {
			t.Errorf("got %q, want accept Bob", s)
		}
		rec := w.ledger.waitOutcome(t, "elicitation/create", schemas.OutcomeAllowed)
		if !rec.Event.Operation.Reverse || !rec.Event.Decision.Modified {
			t.Errorf("operation %+v, decision %+v", rec.Event.Operation, rec.Event.Decision)
		}
		mu.Lock()
		defer mu.Unlock()
		if !seen["request sending"] || !seen["response receiving"] {
			t.Errorf("the plan saw %v", seen)
		}
	})
}

// TestElicitationDenied: the server gets the error, the client never sees the request.
func TestElicitationDenied(t *testing.T) {
	t.Parallel()
	p := &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == "elicitation/create" && phase == schemas.PhaseRequest
		},
		run: func(_ context.Context, in chain.Input) chain.Result { return deny(in) },
	}
	eachLegacyWay(t, p, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			t.Error("the client was asked")
			return &mcp.ElicitResult{Action: "decline"}, nil
		}})
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit", Arguments: map[string]any{}})
		if s := textOf(t, res, err); !strings.HasPrefix(s, "refused: ") || !strings.Contains(s, "Interceptor validation failed") {
			t.Errorf("got %q, want the refusal", s)
		}
		w.ledger.waitOutcome(t, "elicitation/create", schemas.OutcomeDenied)
	})
}

// TestDenied: a blocked call never reaches the server, and the caller gets the error of the SEP.
func TestDenied(t *testing.T) {
	t.Parallel()
	for _, phase := range []schemas.Phase{schemas.PhaseRequest, schemas.PhaseResponse} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			p := &fakePlan{
				matches: func(event string, at schemas.Phase) bool { return event == methodToolsCall && at == phase },
				run:     func(_ context.Context, in chain.Input) chain.Result { return deny(in) },
			}
			eachWay(t, p, func(t *testing.T, w way) {
				t.Helper()
				cs := w.connect(t, nil)
				_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}})
				if err == nil || !strings.Contains(err.Error(), "Interceptor validation failed") {
					t.Fatalf("got %v, want the denial", err)
				}
				d := w.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeDenied).Event.Decision
				if d.AbortedAt != "acme/dlp" || d.AbortPhase != phase || d.ErrorCode != -32602 {
					t.Errorf("decision %+v", d)
				}
				if forwarded := d.BackendUS > 0; forwarded != (phase == schemas.PhaseResponse) {
					t.Errorf("forwarded %v", forwarded)
				}
				if err := cs.Ping(t.Context(), nil); err != nil && w.version != version20260728 {
					t.Errorf("the session does not live on: %v", err)
				}
			})
		})
	}
}

// TestCancel: a cancel of the client ends the call at the server, and the exchange as cancelled.
func TestCancel(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{}})
			done <- err
		}()
		w.ledger.waitRequest(t)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		w.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeCancelled)
		if w.version != version20260728 {
			if err := cs.Ping(t.Context(), nil); err != nil {
				t.Errorf("the session does not live on: %v", err)
			}
		}
	})
}

// TestCancelDuringChain: a cancel ends a running chain, and the server never hears of the call.
func TestCancelDuringChain(t *testing.T) {
	t.Parallel()
	running := make(chan struct{}, 16)
	p := &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == methodToolsCall && phase == schemas.PhaseRequest
		},
		run: func(ctx context.Context, _ chain.Input) chain.Result {
			running <- struct{}{}
			<-ctx.Done()
			return chain.Result{Status: schemas.StatusCancelled}
		},
	}
	eachWay(t, p, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{}})
			done <- err
		}()
		<-running
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		rec := w.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeCancelled)
		if rec.Event.Decision.BackendUS != 0 {
			t.Error("the request was forwarded")
		}
	})
}

// TestDrain: what is open at the end of a drain ends as stopped, and new requests are refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		done := make(chan error, 1)
		go func() {
			_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{}})
			done <- err
		}()
		w.ledger.waitRequest(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := w.Drain(ctx); !errors.Is(err, ErrDrainExpired) {
			t.Errorf("drain: %v, want ErrDrainExpired", err)
		}
		w.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeStopped)
		if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{}}); err == nil {
			t.Error("a call after the drain was taken")
		}
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-done; err == nil {
			t.Error("the stopped call was answered with a result")
		}
	})
}

// TestNotRecorded: when the journal does not take an event, nothing goes on.
func TestNotRecorded(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.Kind{schemas.KindRequest, schemas.KindOutcome} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			eachWay(t, nil, func(t *testing.T, w way) {
				t.Helper()
				cs := w.connect(t, nil)
				w.ledger.mu.Lock()
				w.ledger.fail = func(rec *schemas.Record) error {
					if rec.Event.Kind == kind && rec.Event.Operation.Event == methodToolsCall {
						return errors.New("disk full")
					}
					return nil
				}
				w.ledger.mu.Unlock()
				w.unbalanced.Store(true)
				_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}})
				if err == nil {
					t.Fatal("the call was answered")
				}
				for _, line := range w.ledger.lines() {
					if strings.HasPrefix(line, string(schemas.KindOutcome)+" "+methodToolsCall) {
						t.Errorf("recorded %q", line)
					}
				}
			})
		})
	}
}

// TestUpdates: each session that subscribed gets an update once, the others none.
func TestUpdates(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "stdio", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{Backends: []Backend{backend(t, kind, nil)}})
			updates := [2]chan string{make(chan string, 8), make(chan string, 8)}
			var sessions [2]*mcp.ClientSession
			for i := range sessions {
				sessions[i] = connect(t, g.url, &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
					updates[i] <- r.Params.URI
				}}, legacy)
			}
			if err := sessions[0].Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://r"}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := sessions[0].CallTool(t.Context(), &mcp.CallToolParams{Name: "update", Arguments: map[string]any{"text": "r"}}); err != nil {
					t.Fatal(err)
				}
				if got := <-updates[0]; got != "test://r" {
					t.Errorf("got %q", got)
				}
			}
			if n := len(updates[0]) + len(updates[1]); n != 0 {
				t.Errorf("%d updates too many", n)
			}
		})
	}
}
