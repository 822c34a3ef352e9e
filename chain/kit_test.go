package chain_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// script is an interceptor server of raw answers: what a foreign server may say.
type script struct {
	list   string                                                             // descriptors, comma-separated
	invoke func(ctx context.Context, params jsonx.Value) (jsonx.Value, error) // nil: -32601

	mu    sync.Mutex
	calls []string // params of each invoke
}

func (s *script) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	if method == interceptor.MethodList {
		return jsonx.Value(`{"interceptors":[` + s.list + `]}`), nil
	}
	if s.invoke == nil || method != interceptor.MethodInvoke {
		return nil, &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "Method not found"}
	}
	s.mu.Lock()
	s.calls = append(s.calls, string(params))
	s.mu.Unlock()
	return s.invoke(ctx, params)
}

func (s *script) Done() <-chan struct{} { return nil }
func (s *script) Close() error          { return nil }

// seen returns the params of every invocation of an interceptor.
func (s *script) seen(name string) []jsonx.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []jsonx.Value
	for _, params := range s.calls {
		if got, _ := wire.MemberString(jsonx.Value(params), "name"); got == name {
			list = append(list, jsonx.Value(params))
		}
	}
	return list
}

// answers is an invoke that says the same to every call of an interceptor.
func answers(byName map[string]string) func(context.Context, jsonx.Value) (jsonx.Value, error) {
	return func(_ context.Context, params jsonx.Value) (jsonx.Value, error) {
		name, _ := wire.MemberString(params, "name")
		text, ok := byName[name]
		switch {
		case !ok:
			return nil, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "no such interceptor"}
		case text == "panic":
			panic("boom")
		case text == "fail":
			return nil, errors.New("broken pipe")
		default:
			return jsonx.Value(text), nil
		}
	}
}

// descriptor makes one with a hook on both phases of every event.
func descriptor(name, kind, more string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"hooks":[{"events":["*"],"phase":"both"}]%s}`, name, kind, more)
}

func (s *script) host() chain.HostSpec {
	return chain.HostSpec{
		Ref:     schemas.HostRef{Host: "h"},
		Connect: func(context.Context) (chain.Conn, error) { return s, nil },
	}
}

// planOf starts a set and returns its plan.
func planOf(tb testing.TB, config chain.Config, hosts ...chain.HostSpec) *chain.Plan {
	tb.Helper()
	set, err := chain.NewSet(chain.SetOptions{Config: config, Hosts: hosts})
	if err != nil {
		tb.Fatal(err)
	}
	if err := set.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		if err := set.Run(done); err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	return set.Current()
}

func serve(tb testing.TB, list ...interceptor.Interceptor) *interceptor.Server {
	tb.Helper()
	server, err := interceptor.New(nil, list...)
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

// overPipes connects to a server on the other end of two pipes.
func overPipes(tb testing.TB, serve func(r, w *os.File)) func(context.Context) (wire.Conn, error) {
	tb.Helper()
	var servers sync.WaitGroup
	tb.Cleanup(servers.Wait) // runs after what uses the connections has closed them
	return func(context.Context) (wire.Conn, error) {
		theirIn, ourOut, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ourIn, theirOut, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		servers.Go(func() { serve(theirIn, theirOut) }) // exits with its input
		return wire.NewLineConn(ourIn, ourOut, nil), nil
	}
}

// connects are the ways to one of our servers.
func connects(tb testing.TB, server *interceptor.Server) map[string]func(context.Context) (chain.Conn, error) {
	tb.Helper()
	web := httptest.NewServer(server.HTTPHandler())
	tb.Cleanup(web.Close)
	return map[string]func(context.Context) (chain.Conn, error){
		"in process": chain.Local(server),
		"stdio": chain.Remote(overPipes(tb, func(r, w *os.File) {
			if err := server.ServeStdio(context.Background(), r, w); err != nil {
				tb.Errorf("ServeStdio: %v", err)
			}
		}), nil),
		"http": chain.Remote(func(context.Context) (wire.Conn, error) { return wire.NewHTTPClient(web.URL, nil), nil }, nil),
	}
}
