package chain_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
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
		chaintest.Report(t, chaintest.Suite, way, int(count.Load()), chaintest.Total)
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
	if err := f.CheckApply(step, result.Denial != nil, result.Payload); err != nil {
		return fmt.Errorf("%w (status %s, denial %+v)", err, result.Status, result.Denial)
	}
	return nil
}

func ask(ctx context.Context, conn chain.Conn, f *chaintest.Fixture, step *chaintest.Step) error {
	method, params := step.Request()
	result, err := conn.Call(ctx, method, params)
	return f.CheckAnswer(step, result, err)
}
