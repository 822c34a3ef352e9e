package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/embedded"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/internal/retry"
)

// shard is the one that writers of this version belong to.
const shard = 0

// busLink is JetStream, as soon as it is there: the request path never waits for it.
type busLink struct {
	ready chan struct{} // closed when nc and js are set
	nc    *nats.Conn
	js    jetstream.JetStream
}

// wait returns JetStream; an error means that ctx has ended.
func (b *busLink) wait(ctx context.Context) (jetstream.JetStream, error) {
	select {
	case <-b.ready:
		return b.js, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// serveBus starts the embedded NATS server and connects to it.
func (n *node) serveBus(ctx context.Context) error {
	cfg := embedded.DefaultConfig(n.cfg.Dir("streams"))
	cfg.TokenFile = n.cfg.Dir("keys", "bus.token")
	cfg.SyncAlways = n.cfg.Bus.SyncAlways
	cfg.MaxStore = max(cfg.MaxStore, 4*int64(n.cfg.Bus.MaxBytes))
	cfg.Listen = n.stickyAddress(n.cfg.Bus.Listen)
	return n.group.Start(ctx, lifecycle.Part{
		Name: "bus",
		Start: func(ctx context.Context) (err error) {
			if n.server, err = embedded.Start(ctx, cfg, n.log); err != nil {
				return err
			}
			if err := n.keepAddress(n.server.URL()); err != nil {
				return errors.Join(err, n.server.Shutdown())
			}
			return n.connect(ctx, bus.Config{Name: "chaintrail", Token: n.server.Token(), InProcess: n.server})
		},
		Stop: func(context.Context) error {
			if n.bus != nil && n.bus.nc != nil {
				n.bus.nc.Close()
			}
			return n.server.Shutdown()
		},
	})
}

// busURL tells other processes how to reach the embedded server.
func (n *node) busURL() (string, error) {
	text, err := os.ReadFile(n.cfg.Dir("run", "bus.url"))
	return strings.TrimSpace(string(text)), err
}

// stickyAddress prefers the address of last time, so that other processes find the bus again after
// a restart without asking.
func (n *node) stickyAddress(listen string) string {
	if !strings.HasSuffix(listen, ":0") {
		return listen
	}
	last, err := n.busURL()
	if err != nil {
		return listen
	}
	address := strings.TrimPrefix(last, "nats://")
	l, err := net.Listen("tcp", address) //nolint:noctx // closed at once
	if err != nil {
		return listen
	}
	_ = l.Close()
	return address
}

func (n *node) keepAddress(url string) error {
	if url == "" {
		return nil
	}
	if err := os.MkdirAll(n.cfg.Dir("run"), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(n.cfg.Dir("run", "bus.url"), []byte(url+"\n"), 0o600)
}

// connect waits until JetStream answers and the streams are there.
func (n *node) connect(ctx context.Context, cfg bus.Config) error {
	link, err := n.dial(ctx, cfg)
	if err != nil {
		return err
	}
	n.bus = link
	return nil
}

func (n *node) dial(ctx context.Context, cfg bus.Config) (*busLink, error) {
	nc, err := bus.Connect(cfg, n.log)
	if err != nil {
		return nil, usage(err)
	}
	js, err := bus.WaitReady(ctx, nc)
	if err == nil {
		streams := bus.DefaultStreamConfig()
		streams.Shard, streams.Replicas = shard, n.cfg.Bus.Replicas
		streams.MaxBytes, streams.OpenMaxBytes = int64(n.cfg.Bus.MaxBytes), 2*int64(n.cfg.Bus.MaxBytes)
		err = retry.Do(ctx, retry.Policy{Max: time.Second, MaxElapsed: 30 * time.Second}, func(ctx context.Context) error {
			return bus.Ensure(ctx, js, streams)
		})
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	link := &busLink{ready: make(chan struct{}), nc: nc, js: js}
	close(link.ready)
	return link, nil
}

// joinBus connects to a bus that another process runs: the configured one, else the one that a
// process of this data directory publishes. It does not wait for it.
func (n *node) joinBus(ctx context.Context) error {
	n.bus = &busLink{ready: make(chan struct{})}
	find := lifecycle.Background("bus connection", func(ctx context.Context) error {
		link, err := n.search(ctx)
		if err != nil {
			return err
		}
		n.bus.nc, n.bus.js = link.nc, link.js
		close(n.bus.ready)
		n.log.InfoContext(ctx, "bus found", slog.String("server", link.nc.ConnectedUrlRedacted()))
		<-ctx.Done()
		link.nc.Close()
		return nil
	})
	return n.group.Start(ctx, find)
}

// search looks for the bus until it is there or ctx ends.
func (n *node) search(ctx context.Context) (*busLink, error) {
	for {
		cfg, ok, err := n.busConfig()
		if err != nil {
			return nil, err
		}
		if ok {
			return n.dial(ctx, cfg)
		}
		if !retry.Sleep(ctx, 250*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// busConfig says where the bus is; ok is false while nothing tells.
func (n *node) busConfig() (cfg bus.Config, ok bool, err error) {
	cfg = bus.Config{Name: "chaintrail " + n.cfg.Gateway.Name}
	if n.cfg.Bus.URL != "" {
		cfg.URL, cfg.TokenFile, cfg.CredsFile = n.cfg.Bus.URL, n.cfg.Bus.TokenFile, n.cfg.Bus.CredsFile
		return cfg, true, nil
	}
	info, err := findRuntime(n.cfg, servesBus, "up", "bus")
	if err != nil || info == nil {
		return cfg, false, err
	}
	cfg.URL, cfg.Token = info.BusURL, info.BusToken
	return cfg, true, nil
}

// requireBus is joinBus for processes that can do nothing without.
func (n *node) requireBus(ctx context.Context) error {
	if err := n.joinBus(ctx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("no bus within 30 s"))
	defer cancel()
	if _, err := n.bus.wait(wait); err != nil {
		return withHint(fmt.Errorf("find the bus: %w", err), "start chaintrail up or chaintrail bus on this data directory, or set bus.url")
	}
	return nil
}
