package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"time"
	"uuid"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// contender is one side of a comparison: call makes one call.
type contender struct {
	name string
	call func(ctx context.Context) error
	took samples
}

// inTurns lets every contender make a run of calls, each round in another order, so that what else
// happens on the machine, and who went before, meets all of them alike. Runs of one call compare what
// is mostly waiting; what takes microseconds would then measure how cold the others left the caches.
func inTurns(ctx context.Context, calls, run int, contenders []*contender) error {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // G404: an order that can be repeated
	const warmUp = 300
	for done := 0; done < warmUp+calls; done += run {
		rnd.Shuffle(len(contenders), func(a, b int) { contenders[a], contenders[b] = contenders[b], contenders[a] })
		for _, c := range contenders {
			for range run {
				start := time.Now()
				err := c.call(ctx)
				took := time.Since(start)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				if done >= warmUp {
					c.took = append(c.took, took)
				}
			}
		}
	}
	return nil
}

// measureInterceptor runs a plan of one validator, near and far, and the same call by a go-sdk client.
func measureInterceptor(ctx context.Context, s settings) (rows []row, err error) {
	server, err := newValidator(s.control)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	near, err := s.planContender(ctx, "in process", chain.Local(server))
	if err != nil {
		return nil, err
	}
	lean, err := s.planContender(ctx, "over stdio, lean server", s.connectChild(roleLean))
	if err != nil {
		return nil, err
	}
	sdk, err := s.planContender(ctx, "over stdio, go-sdk server", s.connectChild(roleSDK))
	if err != nil {
		return nil, err
	}
	both, end, err := s.sdkContender(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := inTurns(ctx, s.rounds, 50, []*contender{near, lean, sdk, both}); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		*contender
		bound float64
	}{{near, 10}, {lean, 80}, {sdk, 200}, {both, 0}} {
		what := "one no-op validator, 2 KB, " + c.name + ": p50"
		r := atMost("interceptor", what, c.took.p50(), c.bound, "µs")
		if c.bound == 0 {
			r = beside("interceptor", what, c.took.p50(), "µs")
		}
		r.measured += calmest(c.took)
		rows = append(rows, r)
	}
	return rows, nil
}

// planContender measures Plan.Run from the payload to the decision.
func (s *settings) planContender(ctx context.Context, name string, connect func(context.Context) (chain.Conn, error)) (*contender, error) {
	set, err := newPlan(ctx, "speed", connect)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		_ = set.Run(ctx) // closes the connections
	})
	plan := set.Current()
	in := chain.Input{
		Interception: uuid.NewV7(), Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending,
		Payload: callParams(payloadBytes),
		Context: chain.Context{Principal: chain.Principal{Type: "user", ID: "ann"}, SessionID: uuid.NewV4().String(), Timestamp: time.Now()},
	}
	return &contender{name: name, call: func(ctx context.Context) error {
		result := plan.Run(ctx, in)
		if result.Denial != nil || len(result.Invocations) != 1 || result.Invocations[0].State != schemas.StateFinished {
			return fmt.Errorf("the validator was to pass: %+v", result)
		}
		return nil
	}}, nil
}

// sdkContender makes the same call with the go-sdk on both sides.
func (s *settings) sdkContender(ctx context.Context) (c *contender, end func() error, err error) {
	argv := s.roleCommand(roleSDK)
	client := mcp.NewClient(&mcp.Implementation{Name: "speed", Version: "1"}, nil)
	if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](client, interceptor.MethodInvoke); err != nil {
		return nil, nil, err
	}
	command := exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // our own program; ends with the session
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, &mcp.ClientSessionOptions{ProtocolVersion: wire.Version20251125})
	if err != nil {
		return nil, nil, err
	}
	params := fmt.Appendf(nil, `{"name":%q,"event":"tools/call","phase":"request","timeoutMs":5000,"payload":%s}`,
		validatorName, callParams(payloadBytes))
	return &contender{name: "over stdio, go-sdk client and server", call: func(ctx context.Context) error {
		_, err := mcp.CallCustomMethod[*rawParams, *rawResult](ctx, session, interceptor.MethodInvoke, &rawParams{raw: params})
		return err
	}}, session.Close, nil
}
