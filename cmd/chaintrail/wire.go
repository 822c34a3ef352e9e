package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/chaintrail/chaintrail/bus/embedded"
	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
)

// envSabotage switches one guard off, so that a crash harness can prove that it notices. For tests only.
const envSabotage = "CHAINTRAIL_SABOTAGE"

// node is one process: what its parts share. The files wire_*.go each add one group of parts, and
// the commands choose which: this is the only place where packages meet.
type node struct {
	app      *app
	cfg      config.Config
	log      *slog.Logger
	group    *lifecycle.Group
	keys     keys
	sabotage string

	bus       *busLink         // JetStream, when it is there
	server    *embedded.Server // this process's own
	dsn       string           // of ClickHouse; empty: no store
	ownEngine bool             // dsn is this process's own engine
	outbox    *outbox.Outbox
	adopter   *outbox.Adopter
	recorder  chain.Recorder // the outbox behind the policy
	store     *store
	pipelines []pipeline // further sinks
	seal      *sealing   // nil: this process seals nothing

	inprocess  localHosts // interceptor servers of this process, by host
	sharing    chain.Sharing
	force      atomic.Pointer[force] // the configuration in force, with its interceptor servers
	gateway    *gateway.Gateway
	gatewayURL string
	reloadable func() (config.Config, error) // reads the configuration again; nil: it cannot be
}

func newNode(a *app, cfg config.Config) (*node, error) {
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	log := a.logger(cfg)
	k, err := loadKeys(cfg)
	if err != nil {
		return nil, err
	}
	n := &node{app: a, cfg: cfg, log: log, keys: k, sabotage: os.Getenv(envSabotage)}
	n.group = &lifecycle.Group{Drain: cfg.Drain, Log: log}
	if n.sabotage != "" {
		log.Warn("a guard is switched off on purpose", slog.String("sabotage", n.sabotage))
	}
	return n, nil
}

// sabotageFor returns the sabotage in force if it is one of those that a part knows.
func (n *node) sabotageFor(known ...string) string {
	for _, k := range known {
		if n.sabotage == k {
			return k
		}
	}
	return ""
}

// runNode runs a process of the configuration as it is.
func (a *app) runNode(ctx context.Context, start func(ctx context.Context, n *node) error) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	n, err := newNode(a, cfg)
	if err != nil {
		return err
	}
	return n.run(ctx, func(ctx context.Context) error { return start(ctx, n) })
}

// run starts parts in order, waits for a signal or a failure, and stops them in the opposite order.
// A second signal means now.
func (n *node) run(ctx context.Context, start func(ctx context.Context) error) error {
	now, stop := secondSignal(ctx)
	defer stop()
	err := start(ctx)
	if err == nil {
		err = n.group.Wait(ctx)
	}
	if ctx.Err() != nil {
		n.log.InfoContext(now, "stopping; a second signal stops at once")
		if err != nil && errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	return errors.Join(err, n.group.Stop(now))
}
