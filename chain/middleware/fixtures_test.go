package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/middleware"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// otherOrder are the fixtures that a receiving request cannot pass: they say what a sending one does first.
func otherOrder() []string {
	return []string{
		"behavior/redaction-defuses-relaybleed", "protocol/chain-request-order-mutate-then-validate",
		"protocol/chain-response-order-validate-then-mutate",
	}
}

// The fixtures through a real server and its middleware. Exactly those that are about the sending order fail.
func TestFixtures(t *testing.T) {
	t.Parallel()
	fixtures, err := chaintest.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{wire.Version20251125, wire.Version20260728} {
		var failed []string
		for _, f := range fixtures {
			if err := replay(t, &f, version); err != nil {
				failed = append(failed, f.ID)
				if !slices.Contains(otherOrder(), f.ID) {
					t.Errorf("%s: %v", f.ID, err)
				}
			}
		}
		if diff := cmp.Diff(otherOrder(), failed); diff != "" {
			t.Errorf("failed fixtures (-want +got):\n%s", diff)
		}
		chaintest.Report(t, chaintest.Suite, "middleware, receiving order, "+version, len(fixtures)-len(failed), len(fixtures)-len(otherOrder()))
	}
}

// stage is the inner end of the server: it keeps the params that it gets, and answers as told.
type stage struct {
	answer  atomic.Pointer[jsonx.Value]
	got     atomic.Pointer[jsonx.Value] // nil: not reached
	session atomic.Pointer[string]
}

func (s *stage) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != "tools/call" {
			return next(ctx, method, req)
		}
		params, err := json.Marshal(req.GetParams())
		if err != nil {
			return nil, fmt.Errorf("encode: %w", err)
		}
		raw := jsonx.Value(params)
		s.got.Store(&raw)
		return &result{raw: *s.answer.Load()}, nil
	}
}

func (s *stage) identify(context.Context, mcp.Request) middleware.Caller {
	return middleware.Caller{Session: *s.session.Load()}
}

func replay(t *testing.T, f *chaintest.Fixture, version string) error {
	t.Helper()
	bound, err := f.Bind()
	if err != nil {
		return err
	}
	own, err := interceptor.New(nil, bound...)
	if err != nil {
		return err
	}
	server, s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), &stage{}
	server.AddReceivingMiddleware(s.receive)
	install(t, server, middleware.Options{Plan: planOf(t, bound...), Recorder: &ledger{}, Identify: s.identify})
	if err := own.Install(server); err != nil { // beside the middleware, which leaves its methods out
		return err
	}
	client := dial(t, server, version)
	for n := 0; n < len(f.Steps); n++ {
		step := &f.Steps[n]
		if step.Op != "apply" {
			method, params := step.Request()
			got, err := client.Call(t.Context(), method, params)
			if err := f.CheckAnswer(step, got, err); err != nil {
				return err
			}
			continue
		}
		request, response := step, (*chaintest.Step)(nil)
		if step.Phase == schemas.PhaseResponse {
			request, response = nil, step
		} else if n+1 < len(f.Steps) && f.Steps[n+1].Phase == schemas.PhaseResponse { // the answer to this request
			n++
			response = &f.Steps[n]
		}
		if err := s.apply(t.Context(), client, f, request, response); err != nil {
			return err
		}
	}
	return nil
}

// apply makes one call of a request and of the response to it; where one is missing, one takes its place that no
// interceptor of the fixtures minds.
func (s *stage) apply(ctx context.Context, client *wire.Client, f *chaintest.Fixture, request, response *chaintest.Step) error {
	params, answer := jsonx.Value(`{"name":"t","arguments":{"note":"X"}}`), jsonx.Value(`{"content":[]}`)
	session := ""
	if request != nil {
		params = request.Payload
		session, _ = wire.MemberString(request.Context, "sessionId")
	}
	if response != nil {
		answer = response.Payload
		session, _ = wire.MemberString(response.Context, "sessionId")
	}
	s.answer.Store(&answer)
	s.session.Store(&session)
	s.got.Store(nil)
	back, err := client.Call(ctx, "tools/call", params)
	if _, ok := errors.AsType[*wire.RPCError](err); err != nil && !ok {
		return fmt.Errorf("call: %w", err)
	}
	if request != nil {
		got := s.got.Load()
		payload := request.Payload
		if got != nil {
			payload = *got
		}
		if err := loose(f).CheckApply(request, got == nil, payload); err != nil {
			return err
		}
	}
	if response == nil {
		return nil
	}
	if err != nil {
		back = response.Payload
	}
	return loose(f).CheckApply(response, err != nil, back)
}

// loose leaves out what protocol 2026-07-28 adds.
func loose(f *chaintest.Fixture) *chaintest.Fixture {
	own := *f
	own.Volatile = append([]string{"_meta", "resultType"}, f.Volatile...)
	return &own
}
