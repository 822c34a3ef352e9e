package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/deferred"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

const handshakeTimeout = 30 * time.Second

// hostCaller is a connected interceptor server. Close ends the connection and, for a command, its process.
type hostCaller struct {
	*wire.Client
	stop func()
	once sync.Once
}

// Close implements io.Closer.
func (h *hostCaller) Close() error {
	h.once.Do(h.stop)
	return nil
}

// dialHost connects to an interceptor server and makes the handshake.
func (n *node) dialHost(ctx context.Context, ref schemas.HostRef, headers map[string]string) (*hostCaller, error) {
	conn, stop, err := n.openHost(ref, headers) //nolint:contextcheck // the connection outlives ctx; its stop has a limit of its own
	if err != nil {
		return nil, err
	}
	client := wire.NewClient(conn, &wire.ClientOptions{Name: "chaintrail", Version: version, Logger: n.log})
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // exits when the connection ends; Close waits for it
		defer close(done)
		if err := client.Run(run); err != nil {
			n.log.WarnContext(run, "connection to an interceptor server ended", slog.String("host", ref.Host), slog.Any("error", err))
		}
	}()
	h := &hostCaller{Client: client, stop: func() {
		stop()
		cancel()
		<-done
	}}
	ctx, cancelHandshake := context.WithTimeoutCause(ctx, handshakeTimeout, fmt.Errorf("no handshake within %s", handshakeTimeout))
	defer cancelHandshake()
	if _, err := client.Initialize(ctx); err != nil {
		_ = h.Close()
		return nil, fmt.Errorf("interceptor server %q: %w", ref.Host, err)
	}
	return h, nil
}

func (n *node) openHost(ref schemas.HostRef, headers map[string]string) (wire.Conn, func(), error) {
	if ref.URL != "" {
		header := http.Header{}
		for name, value := range headers {
			header.Set(name, value)
		}
		return wire.NewURLClient(ref.URL, &wire.HTTPOptions{Header: header}), func() {}, nil
	}
	child, err := wire.StartChild(wire.ChildConfig{Command: ref.Command, Env: environment(ref.Env), Logger: n.log.With(slog.String("host", ref.Host))})
	if err != nil {
		return nil, nil, fmt.Errorf("interceptor server %q: %w", ref.Host, err)
	}
	return child, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := child.Stop(ctx); err != nil {
			n.log.WarnContext(ctx, "interceptor server ended", slog.String("host", ref.Host), slog.Any("error", err))
		}
	}, nil
}

func environment(extra map[string]string) []string {
	env := os.Environ()
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}

// connectDeferred reaches the server of a plan entry, wherever this process can.
func (n *node) connectDeferred(ctx context.Context, ref schemas.HostRef) (chain.Conn, error) {
	if local, ok := n.inprocess.get(ref.Host); ok {
		return local.connect(ctx)
	}
	if ref.URL == "" && len(ref.Command) == 0 {
		return nil, deferred.ErrNotHere
	}
	for _, h := range n.config().Interceptors {
		if h.Name == ref.Host {
			return n.dialHost(ctx, ref, h.Headers)
		}
	}
	return n.dialHost(ctx, ref, nil)
}

// localRef prefers what this process is configured with: a plan event holds no secrets for long.
func (n *node) localRef(ref schemas.HostRef) schemas.HostRef {
	for _, h := range n.config().Interceptors {
		if h.Name != ref.Host {
			continue
		}
		if spec, err := n.hostSpec(h); err == nil {
			return spec.Ref
		}
	}
	return ref
}
