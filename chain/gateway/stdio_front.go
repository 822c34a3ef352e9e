package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"uuid"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// stdioPort is a client on the other end of lines.
type stdioPort struct{ conn *wire.LineConn }

func (p stdioPort) deliver(ctx context.Context, msg *wire.Message) error {
	if err := p.conn.Send(ctx, msg.Raw, nil); err != nil {
		return fmt.Errorf("send to client: %w", err)
	}
	return nil
}

// Run serves the one client on standard input and output, as [Gateway.ServeStdio] does.
func (g *Gateway) Run(ctx context.Context) error { return g.ServeStdio(ctx, os.Stdin, os.Stdout) }

// ServeStdio serves one client over lines: a desktop program that started the gateway as its MCP
// server. With more than one backend it serves the first. It returns nil when the client closed in,
// after what was open has ended and the server was stopped; an error when the server was lost, or
// when ctx ended before. In is not closed: a read of it that blocks goes on behind a return by ctx.
func (g *Gateway) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return g.ServeStdioBackend(ctx, g.table.Load().backends[0].Name, in, out)
}

// ServeStdioBackend is [Gateway.ServeStdio] for the backend of that name.
func (g *Gateway) ServeStdioBackend(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	l := g.table.Load().lanes[name]
	if l == nil {
		return fmt.Errorf("%w: %q", ErrUnknownBackend, name)
	}
	ctx, end := g.life.begin(ctx, false)
	if end == nil {
		return ErrStopping
	}
	defer end()
	server, stop, err := l.dial(nil)
	if err != nil {
		return fmt.Errorf("backend %q: %w", name, err)
	}
	client := wire.NewLineConn(in, nopWriteCloser{out}, &wire.LineOptions{MaxMessage: int(g.opts.MaxMessage)})
	// Lines have no session ids: one made here keeps the clients of interceptor servers that several gateways share apart.
	s := newSession(uuid.NewV7().String(), &g.opts.Key, g.opts.MaxPending)
	k := newLink(l, s, arrival{caller: g.opts.StdioCaller, transport: "stdio"}, stdioPort{client}, server)
	return k.serveLines(ctx, client, stop)
}

// serveLines runs both read loops of a link whose client speaks lines.
func (k *link) serveLines(ctx context.Context, client *wire.LineConn, stop func(context.Context)) error {
	// Work goes on a little behind the end of ctx, to answer and to record.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	reply := func(raw []byte) {
		if raw == nil {
			return
		}
		if err := client.Send(work, raw, nil); err != nil {
			k.lane.log.DebugContext(work, "answer not delivered", slog.Any("error", err))
		}
	}
	clientDone, serverDone := make(chan error, 1), make(chan error, 1)
	go func() { // exits when in ends; not waited for when it does not, see ServeStdio
		in := k.base
		in.reply = reply
		clientDone <- client.Receive(work, func(raw []byte) { k.fromClient(work, raw, in) }, func(err error) {
			in.answer(k.lane.refuseRaw(work, in, err))
		})
	}()
	var receiving sync.WaitGroup
	receiving.Go(func() { // exits when the server's stream ends, at the latest by stop
		serverDone <- k.server.Receive(work, func(raw []byte) { k.fromServer(work, raw) }, func(err error) { k.skipped(work, err) })
	})
	var lost, result error
	why := errSessionEnded
	select {
	case result = <-clientDone:
		k.settleRest(ctx)
	case err := <-serverDone:
		lost = errors.Join(errors.New("the server ended"), err)
		result = fmt.Errorf("backend %q: %w", k.lane.backend.Name, lost)
	case <-ctx.Done():
		result, why = context.Cause(ctx), errStopped
	}
	k.end(work, lost, why)
	stop(context.WithoutCancel(ctx))
	receiving.Wait()
	k.end(work, lost, why)
	return result
}

// settleRest waits, when the client will ask nothing more, for what it asked before.
func (k *link) settleRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.lane.opts.StopGrace)
	defer cancel()
	done := make(chan struct{})
	go func() { // exits when every request has been written or answered
		k.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return
	}
	k.session.waitIdle(ctx)
}

// dial opens a connection to the backend for one session; stop ends it. What the transport t adds to
// its requests goes with a connection over HTTP; nil: the gateway's own.
func (l *lane) dial(t http.RoundTripper) (conn wire.Conn, stop func(context.Context), err error) {
	inner, stopServer, err := l.dialServer(t)
	if err != nil || l.backend.Bridge == BridgeOff {
		return inner, stopServer, err
	}
	b := newBridge(l, inner)
	return b, func(ctx context.Context) {
		b.end()
		stopServer(ctx)
	}, nil
}

func (l *lane) dialServer(t http.RoundTripper) (conn wire.Conn, stop func(context.Context), err error) {
	if l.backend.URL != "" {
		c := l.dialURL(t)
		return c, func(ctx context.Context) { l.stopped(ctx, c.Close()) }, nil
	}
	child, err := wire.StartChild(wire.ChildConfig{
		Command: l.backend.Command, Dir: l.backend.Dir, Env: environment(l.backend.Env),
		Line:      wire.LineOptions{MaxMessage: int(l.opts.MaxMessage)},
		CloseWait: l.opts.StopGrace, Logger: l.log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start server: %w", err)
	}
	return child, func(ctx context.Context) { l.stopped(ctx, child.Stop(ctx)) }, nil
}

// dialURL makes a connection by the transport that the backend is known, or said, to speak.
func (l *lane) dialURL(t http.RoundTripper) wire.Conn {
	opts := l.httpOptions()
	if t != nil {
		// It is translated: what comes unasked cannot cross.
		opts.Client.Transport, opts.Listen = t, false
		return wire.NewHTTPClient(l.backend.URL, opts)
	}
	switch {
	case l.backend.Transport == TransportSSE || l.outdated.Load():
		return wire.NewSSEClient(l.backend.URL, opts)
	case l.backend.Transport == TransportHTTP:
		return wire.NewHTTPClient(l.backend.URL, opts)
	}
	return wire.NewURLClient(l.backend.URL, opts)
}

func (l *lane) httpOptions() *wire.HTTPOptions {
	header := make(http.Header, len(l.backend.Headers))
	for name, value := range l.backend.Headers {
		header.Set(name, value)
	}
	return &wire.HTTPOptions{
		Client: &http.Client{Transport: l.opts.Transport}, Header: header,
		MaxMessage: int(l.opts.MaxMessage), Listen: true, CloseWait: l.opts.StopGrace,
		Mirror: func(h http.Header, method string, params jsonx.Value) {
			if method == methodToolsCall {
				l.bound.mirror(h, params)
			}
		},
	}
}

func (l *lane) stopped(ctx context.Context, err error) {
	if err != nil {
		l.log.InfoContext(ctx, "server stopped", slog.Any("error", err))
	}
}

// environment is ours with the configured additions.
func environment(add map[string]string) []string {
	if len(add) == 0 {
		return nil
	}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, set := add[name]
		return set
	})
	for _, name := range slices.Sorted(maps.Keys(add)) {
		env = append(env, name+"="+add[name])
	}
	return env
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }
