package chain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// swapEnv names the negative control: with it set, every step runs in the other direction, and the suite has to fail.
const swapEnv = "CHAINTRAIL_FIXTURES_SWAP"

// TestFixtures replays the whole suite through the real runner, in process and over MCP.
func TestFixtures(t *testing.T) {
	fixtures, err := chaintest.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	passed := map[string]*atomic.Int32{"in process": {}, "stdio": {}, "http": {}}
	t.Run("suite", func(t *testing.T) {
		for _, f := range fixtures {
			for way, count := range passed {
				t.Run(way+"/"+f.ID, func(t *testing.T) {
					t.Parallel()
					if err := replay(t, &f, way, os.Getenv(swapEnv) != ""); err != nil {
						t.Fatal(err)
					}
					count.Add(1)
				})
			}
		}
	})
	for way, count := range passed {
		t.Logf("interceptor fixtures, %s: %d of %d", way, count.Load(), len(fixtures))
		if count.Load() != 24 {
			t.Errorf("%s: %d fixtures passed, want 24", way, count.Load())
		}
	}
}

// TestFixturesNoticeTheOrder is the negative control in every run: the suite must fail with the stages swapped.
func TestFixturesNoticeTheOrder(t *testing.T) {
	t.Parallel()
	fixtures, err := chaintest.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range fixtures {
		if err := replay(t, &f, "in process", true); err != nil {
			failed = append(failed, f.ID)
		}
	}
	if len(failed) < 3 {
		t.Errorf("with the stages swapped only %v fail; the suite does not notice the order", failed)
	}
}

func replay(t *testing.T, f *chaintest.Fixture, way string, swap bool) error {
	t.Helper()
	bound, err := f.Bind()
	if err != nil {
		return err
	}
	server := serve(t, bound...)
	var conn chain.Conn
	connect := connects(t, server)[way]
	plan := planOf(t, chain.Config{}, chain.HostSpec{
		Ref: schemas.HostRef{Host: "suite"},
		Connect: func(ctx context.Context) (chain.Conn, error) {
			var err error
			conn, err = connect(ctx)
			return conn, err
		},
	})
	for n, step := range f.Steps {
		if step.Op == "apply" {
			err = apply(t.Context(), plan, f, &step, swap)
		} else {
			err = ask(t.Context(), conn, f, &step)
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	return nil
}

func apply(ctx context.Context, plan *chain.Plan, f *chaintest.Fixture, step *chaintest.Step, swap bool) error {
	direction := schemas.Receiving // the suite runs as the client's side: a request is sent, a response received
	if (step.Phase == schemas.PhaseRequest) != swap {
		direction = schemas.Sending
	}
	session, _ := wire.MemberString(step.Context, "sessionId")
	result := plan.Run(ctx, chain.Input{
		Interception: uuid.NewV7(), Event: step.Event, Phase: step.Phase, Direction: direction, Payload: step.Payload,
		Context: chain.Context{Timestamp: time.Now(), SessionID: session},
	})
	decision := "allow"
	if result.Denial != nil {
		decision = "deny"
	}
	if decision != step.Expect.Decision {
		return fmt.Errorf("decision is %s, want %s (status %s, denial %+v)", decision, step.Expect.Decision, result.Status, result.Denial)
	}
	final, err := f.Canonical(result.Payload)
	if err != nil {
		return err
	}
	if want := step.Expect.FinalPayloadCanonical; want != "" && final != want {
		return fmt.Errorf("final payload is %s, want %s", final, want)
	}
	for _, text := range step.Expect.Forbids {
		if strings.Contains(final, text) {
			return fmt.Errorf("final payload %s holds %q", final, text)
		}
	}
	for _, text := range step.Expect.Requires {
		if !strings.Contains(final, text) {
			return fmt.Errorf("final payload %s lacks %q", final, text)
		}
	}
	return nil
}

func ask(ctx context.Context, conn chain.Conn, f *chaintest.Fixture, step *chaintest.Step) error {
	method, params := interceptor.MethodInvoke, step.Params
	if step.Op == "list" {
		method, params = interceptor.MethodList, nil
		if step.Event != "" {
			params = jsonx.Value(`{"event":"` + step.Event + `"}`)
		}
	}
	result, err := conn.Call(ctx, method, params)
	if code := step.Expect.ErrorCode; code != 0 {
		if e, ok := errors.AsType[*wire.RPCError](err); !ok || e.Code != code {
			return fmt.Errorf("error is %w, want code %d", err, code)
		}
		return nil
	}
	if err != nil {
		return err
	}
	got, err := f.Canonical(result)
	if err != nil {
		return err
	}
	if got != step.Expect.Canonical {
		return fmt.Errorf("result is %s, want %s", got, step.Expect.Canonical)
	}
	return nil
}
