package interop_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// TestFixturesThroughGateway replays the whole suite through a gateway: a request step is what
// reaches the server, a response step is what the client gets, list and invoke go to an interceptor
// server behind it.
//
// Stdio in front is left out here: it has no session ids, which the suite needs.
func TestFixturesThroughGateway(t *testing.T) {
	fixtures, err := chaintest.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	passed := map[way]*atomic.Int32{{overHTTP, overHTTP}: {}, {overHTTP, overStdio}: {}}
	t.Run("suite", func(t *testing.T) {
		for _, f := range fixtures {
			for w, count := range passed {
				t.Run(w.String()+"/"+f.ID, func(t *testing.T) {
					t.Parallel()
					if err := replay(t, w, &f); err != nil {
						t.Fatal(err)
					}
					count.Add(1)
				})
			}
		}
	})
	for w, count := range passed {
		chaintest.Report(t, chaintest.Suite, "gateway, "+w.String(), int(count.Load()), chaintest.Total)
	}
}

func replay(t *testing.T, w way, f *chaintest.Fixture) error {
	t.Helper()
	if f.Steps[0].Op == "apply" {
		return replayApply(t, w, f)
	}
	b := gateway.Backend{Name: "b", Command: self(t), Env: map[string]string{fixtureEnv: f.ID}}
	if w.back == overHTTP {
		s := httptest.NewServer(serverOf(t, f).HTTPHandler())
		t.Cleanup(s.Close)
		b = gateway.Backend{Name: "b", URL: s.URL}
	}
	c := newWorld(t, w, b, nil).newClient(t, "")
	if w.back == overHTTP { // that server makes its sessions
		c.call(t, []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
	}
	for n, step := range f.Steps {
		method, params := step.Request()
		raw := wire.NewRequest(jsonx.Value(strconv.Itoa(n+1)), method, params)
		msg, err := wire.Parse(c.call(t, raw), wire.Limits{})
		if err != nil {
			return err
		}
		var failed error
		if rpc := msg.RPCError(); rpc != nil {
			failed = rpc
		}
		if err := f.CheckAnswer(&step, msg.Result, failed); err != nil {
			return fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	return nil
}

func serverOf(t *testing.T, f *chaintest.Fixture) *interceptor.Server {
	t.Helper()
	bound, err := f.Bind()
	if err != nil {
		t.Fatal(err)
	}
	server, err := interceptor.New(&interceptor.Options{Logger: slog.New(slog.DiscardHandler)}, bound...)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// applied is one exchange made of steps: a request, a response, or a request with the response that
// follows it.
type applied struct {
	session           string
	request, response *chaintest.Step
}

func exchangesOf(f *chaintest.Fixture) []applied {
	var list []applied
	for i := range f.Steps {
		step := &f.Steps[i]
		session, _ := wire.MemberString(step.Context, "sessionId")
		if step.Phase == schemas.PhaseRequest {
			list = append(list, applied{session: session, request: step})
			continue
		}
		if n := len(list) - 1; n >= 0 && list[n].session == session && list[n].response == nil && list[n].request.Event == step.Event {
			list[n].response = step
			continue
		}
		list = append(list, applied{session: session, response: step})
	}
	return list
}

func replayApply(t *testing.T, w way, f *chaintest.Fixture) error {
	t.Helper()
	result := jsonx.Value(`{}`)
	p := newPeer(t, func(msg *wire.Message) reply {
		return say(`{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"result":` + string(result) + `}`)
	})
	b := p.backend(t, w.back)
	b.Plan = planOf(t, chain.Config{}, chain.HostSpec{Ref: schemas.HostRef{Host: "suite"}, Connect: chain.Local(serverOf(t, f))})
	o := newWorld(t, w, b, nil)
	clients := map[string]*client{}
	for n, x := range exchangesOf(f) {
		c := clients[x.session]
		if c == nil {
			c = o.newClient(t, x.session)
			clients[x.session] = c
		}
		before := len(p.requests())
		event, params := "", jsonx.Value(`{"name":"any"}`)
		result = jsonx.Value(`{}`)
		if x.response != nil {
			event = x.response.Event
			result = x.response.Payload.Clone()
			if err := result.Compact(); err != nil { // a message is one line
				return err
			}
		}
		if x.request != nil {
			event, params = x.request.Event, x.request.Payload
		}
		answer, err := wire.Parse(c.call(t, wire.NewRequest(jsonx.Value(strconv.Itoa(n+1)), event, params)), wire.Limits{})
		if err != nil {
			return err
		}
		if err := x.check(f, p.requests()[before:], &answer); err != nil {
			return fmt.Errorf("exchange %d: %w", n+1, err)
		}
	}
	return nil
}

// check compares what the server got and what the client got with the steps.
func (x *applied) check(f *chaintest.Fixture, arrived []string, answer *wire.Message) error {
	reached := len(arrived) == 1
	var params jsonx.Value
	if reached {
		msg, err := wire.Parse([]byte(arrived[0]), wire.Limits{})
		if err != nil {
			return err
		}
		params = msg.Params
	}
	if x.request != nil {
		if err := f.CheckApply(x.request, !reached, params); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	if !reached && (answer.RPCError() == nil || !strings.HasPrefix(answer.RPCError().Message, "Interceptor ")) {
		return fmt.Errorf("a denied request was answered with %s", answer.Raw)
	}
	if x.response == nil {
		return nil
	}
	if !reached {
		return errors.New("the request of a response step was denied")
	}
	if err := f.CheckApply(x.response, answer.Kind == wire.KindError, answer.Result); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	return nil
}
