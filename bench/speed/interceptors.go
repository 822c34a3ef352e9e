package main

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	passName     = "pass"
	controlDelay = time.Millisecond
)

// newServer has that many validators that let everything pass, and mutators that leave everything as it is.
func newServer(control bool, validators, mutators int) (*interceptor.Server, error) {
	wait := func() {
		if control {
			time.Sleep(controlDelay)
		}
	}
	described := func(kind string, i int) interceptor.Descriptor {
		return interceptor.Descriptor{
			Name: "bench/" + kind + strconv.Itoa(i), Version: "1", Hooks: interceptor.OnRequest("tools/call"),
		}
	}
	var list []interceptor.Interceptor
	for i := range validators {
		list = append(list, interceptor.Validator(described(passName, i),
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				wait()
				return interceptor.Pass(), nil
			}))
	}
	for i := range mutators {
		list = append(list, interceptor.Mutator(described("same", i),
			func(context.Context, *interceptor.Call) (interceptor.Mutation, error) {
				wait()
				return interceptor.Unmodified(), nil
			}))
	}
	return interceptor.New(nil, list...)
}

// serveInterceptors serves interceptors on standard input and output, lean or as a go-sdk server. The arguments are
// those of [settings.roleCommand].
func serveInterceptors(ctx context.Context, sdk bool, arg func(int) string) error {
	validators, err := strconv.Atoi(arg(1))
	if err != nil {
		return err
	}
	mutators, err := strconv.Atoi(arg(2))
	if err != nil {
		return err
	}
	server, err := newServer(arg(0) == "true", validators, mutators)
	if err != nil {
		return err
	}
	if !sdk {
		return server.ServeStdio(ctx, os.Stdin, os.Stdout)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "speed", Version: "1"}, nil)
	if err := server.Install(s); err != nil {
		return err
	}
	return s.Run(ctx, &mcp.StdioTransport{})
}

// newPlan puts in force what connect leads to.
func newPlan(ctx context.Context, host string, connect func(context.Context) (chain.Conn, error)) (*chain.Set, error) {
	set, err := chain.NewSet(chain.SetOptions{
		Server: "bench",
		Hosts:  []chain.HostSpec{{Ref: schemas.HostRef{Host: host}, Connect: connect}},
	})
	if err != nil {
		return nil, err
	}
	return set, set.Start(ctx)
}

// childConn is a lean client of an interceptor server in a process of its own.
type childConn struct {
	*wire.Client
	child *wire.Child
	done  chan struct{}
}

// Close implements chain.Conn.
func (c *childConn) Close() error {
	err := c.child.Stop(context.Background())
	<-c.done
	return err
}

func (s *settings) connectChild(role string, validators, mutators int) func(ctx context.Context) (chain.Conn, error) {
	return func(ctx context.Context) (chain.Conn, error) {
		child, err := wire.StartChild(wire.ChildConfig{Command: s.roleCommand(role, validators, mutators), Logger: s.log})
		if err != nil {
			return nil, err
		}
		c := &childConn{Client: wire.NewClient(child, &wire.ClientOptions{Logger: s.log}), child: child, done: make(chan struct{})}
		run := context.WithoutCancel(ctx)
		go func() { // exits when the connection ends; Close waits for it
			defer close(c.done)
			_ = c.Run(run)
		}()
		if _, err := c.Initialize(ctx); err != nil {
			_ = c.Close() //nolint:contextcheck // the end of a child outlives ctx
			return nil, err
		}
		return c, nil
	}
}

func (s *settings) roleCommand(role string, validators, mutators int) []string {
	return []string{s.self, role, strconv.FormatBool(s.control), strconv.Itoa(validators), strconv.Itoa(mutators)}
}

// rawParams and rawResult carry JSON through the go-sdk as it is.
type rawParams struct {
	mcp.ParamsBase
	raw jsonx.Value
}

func (p *rawParams) MarshalJSON() ([]byte, error) { return p.raw, nil }                  //nolint:unparam // the encoders' interface
func (p *rawParams) UnmarshalJSON(b []byte) error { p.raw = bytes.Clone(b); return nil } //nolint:unparam // the encoders' interface

type rawResult struct {
	mcp.ResultBase
	raw jsonx.Value
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }                  //nolint:unparam // the encoders' interface
func (r *rawResult) UnmarshalJSON(b []byte) error { r.raw = bytes.Clone(b); return nil } //nolint:unparam // the encoders' interface
