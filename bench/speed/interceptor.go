package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
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

// measureInterceptor runs plans near and far, and the same call by a go-sdk client.
func measureInterceptor(ctx context.Context, s settings) (rows []row, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var contenders []*contender
	var bounds []float64 // in the same order, µs; 0: a value beside
	for _, c := range []struct {
		name                 string
		role                 string // empty: in process
		validators, mutators int
		bound                float64
	}{
		{"one no-op validator, 2 KB, in process", "", 1, 0, 10},
		{"8 no-op validators, 2 KB, in process", "", 8, 0, 40},
		{"one no-op validator, 2 KB, over stdio, lean server", roleLean, 1, 0, 80},
		{"4 no-op validators and 4 mutators, 2 KB, over stdio, one lean server", roleLean, 4, 4, 350},
		{"one no-op validator, 2 KB, over stdio, go-sdk server", roleSDK, 1, 0, 200},
	} {
		connect := s.connectChild(c.role, c.validators, c.mutators)
		if c.role == "" {
			server, err := newServer(s.control, c.validators, c.mutators)
			if err != nil {
				return nil, err
			}
			connect = chain.Local(server)
		}
		contender, err := planContender(ctx, c.name, c.validators+c.mutators, connect)
		if err != nil {
			return nil, err
		}
		contenders, bounds = append(contenders, contender), append(bounds, c.bound)
	}
	both, end, err := s.sdkContender(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	contenders, bounds = append(contenders, both), append(bounds, 0)
	if err := inTurns(ctx, s.rounds, 50, slices.Clone(contenders)); err != nil {
		return nil, err
	}
	for i, c := range contenders {
		r := atMost("interceptor", c.name+": p50", c.took.p50(), bounds[i], "µs")
		if bounds[i] == 0 {
			r = beside("interceptor", c.name+": p50", c.took.p50(), "µs")
		}
		r.measured += calmest(c.took)
		rows = append(rows, r)
	}
	rows = append(rows, atMost("interceptor", contenders[eightNear].name+": allocations",
		contenders[eightNear].allocations(ctx), 80, ""))
	empty, err := measureEmptyPlan(ctx)
	return append(rows, empty...), err
}

// measureEmptyPlan measures what a message costs that no interceptor is due for.
func measureEmptyPlan(ctx context.Context) ([]row, error) {
	server, err := newServer(false, 0, 0)
	if err != nil {
		return nil, err
	}
	c, err := planContender(ctx, "no interceptor due", 0, chain.Local(server))
	if err != nil {
		return nil, err
	}
	const calls = 1000 // in one sample: a single one is near what the clock can tell
	for range 200 {
		start := time.Now()
		for range calls {
			if err := c.call(ctx); err != nil {
				return nil, err
			}
		}
		c.took = append(c.took, time.Since(start))
	}
	r := atMost("interceptor", c.name+": p50", c.took.p50(), 300, "ns") // µs of a thousand are ns of one
	r.measured += calmest(c.took)
	return []row{r, atMost("interceptor", c.name+": allocations", c.allocations(ctx), 0, "")}, nil
}

// eightNear is the place of the eight validators in process.
const eightNear = 1

// allocations is how many objects a call leaves on the heap.
func (c *contender) allocations(ctx context.Context) float64 {
	return testing.AllocsPerRun(100, func() { _ = c.call(ctx) })
}

// planContender measures Plan.Run from the payload to the decision.
func planContender(ctx context.Context, name string, invocations int, connect func(context.Context) (chain.Conn, error)) (*contender, error) {
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
		if result.Denial != nil || len(result.Invocations) != invocations {
			return fmt.Errorf("the call was to pass %d interceptors: %+v", invocations, result)
		}
		for i := range result.Invocations {
			if result.Invocations[i].State != schemas.StateFinished {
				return fmt.Errorf("an interceptor did not finish: %+v", result.Invocations[i])
			}
		}
		return nil
	}}, nil
}

// sdkContender makes the same call with the go-sdk on both sides.
func (s *settings) sdkContender(ctx context.Context) (c *contender, end func() error, err error) {
	argv := s.roleCommand(roleSDK, 1, 0)
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
		"bench/"+passName+"0", callParams(payloadBytes))
	return &contender{name: "one no-op validator, 2 KB, over stdio, go-sdk client and server", call: func(ctx context.Context) error {
		_, err := mcp.CallCustomMethod[*rawParams, *rawResult](ctx, session, interceptor.MethodInvoke, &rawParams{raw: params})
		return err
	}}, session.Close, nil
}
