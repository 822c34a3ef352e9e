package main

import (
	"context"
	"fmt"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// everyServer is the plan's server when it stands before all of several backends.
const everyServer = "*"

// runChain connects the interceptor servers and puts the first plan in force; each plan is recorded
// before it is.
func (n *node) runChain(ctx context.Context) error {
	first, err := n.newForce(n.cfg)
	if err != nil {
		return usage(err)
	}
	n.force.Store(first)
	return n.group.Start(ctx, lifecycle.Part{
		Name: "interceptors",
		Start: func(ctx context.Context) error {
			if err := first.set.Start(ctx); err != nil {
				return withHint(err, "start the interceptor server, or take it out of interceptors:")
			}
			return first.run.Start(ctx)
		},
		Stop:   func(ctx context.Context) error { return n.force.Load().run.Stop(ctx) },
		Failed: first.run.Failed,
	})
}

// newForce makes the interceptor servers of a configuration; nothing is connected yet.
func (n *node) newForce(cfg config.Config) (*force, error) {
	f := &force{cfg: cfg, breakers: n.breakers(cfg), replaced: make(chan struct{})}
	opts, err := n.setOptions(cfg)
	if err != nil {
		return nil, err
	}
	opts.Breakers = f.breakers
	opts.OnPlan = func(ctx context.Context, plan *chain.Plan) error {
		select {
		case <-f.replaced:
			return errReplaced
		default:
			return n.recordPlan(ctx, plan)
		}
	}
	set, err := chain.NewSet(opts)
	if err != nil {
		return nil, err
	}
	f.set, f.run = set, lifecycle.Background("interceptors", set.Run)
	return f, nil
}

// setOptions describes the interceptor servers of a configuration and those of this process.
func (n *node) setOptions(cfg config.Config) (chain.SetOptions, error) {
	opts := chain.SetOptions{Config: chainConfig(cfg), Refresh: cfg.Gateway.RefreshEvery, Logger: n.log}
	if len(cfg.Backends) == 1 {
		opts.Server = cfg.Backends[0].Name
	}
	if err := n.addBuiltins(cfg); err != nil {
		return opts, err
	}
	for host, local := range n.inprocess.all() {
		if local.builtin != "" {
			continue // in force only where it is configured, see below
		}
		opts.Hosts = append(opts.Hosts, chain.HostSpec{
			Ref: schemas.HostRef{Host: host}, Connect: local.connect,
		})
	}
	for _, h := range cfg.Interceptors {
		if h.Dynamic {
			continue // connected when a request needs it
		}
		spec, err := n.hostSpec(h)
		if err != nil {
			return opts, err
		}
		opts.Hosts = append(opts.Hosts, spec)
	}
	return opts, nil
}

// chainConfig is what holds for every plan, of static and of dynamic servers.
func chainConfig(cfg config.Config) chain.Config {
	return chain.Config{
		Server: everyServer, ChainTimeout: cfg.Gateway.ChainTimeout, DenyDetail: chain.DenyDetail(cfg.Gateway.Deny.Detail),
		Duplicates: chain.Duplicates(cfg.Gateway.Duplicates),
	}
}

// breakers returns those in force, or new ones for other settings.
func (n *node) breakers(cfg config.Config) *chain.Breakers {
	b := cfg.Gateway.Breaker
	if old := n.force.Load(); old != nil && old.cfg.Gateway.Breaker == b {
		return old.breakers
	}
	return chain.NewBreakers(chain.BreakerConfig{Failures: b.Failures, Pause: b.Pause, MaxPause: b.MaxPause, Logger: n.log})
}

func (n *node) hostSpec(h config.Host) (chain.HostSpec, error) {
	spec := chain.HostSpec{
		Ref:      schemas.HostRef{Host: h.Name, URL: h.URL, Command: h.Command, Env: h.Env, Configs: map[string]jsonx.Value{}},
		Envelope: h.Envelope, Timeout: h.Timeout, Only: h.Only, Overrides: map[string]chain.Override{},
	}
	for name, value := range h.Interceptors {
		encoded, err := jsonx.Marshal(value)
		if err != nil {
			return spec, fmt.Errorf("interceptors %s: configs.%s: %w", h.Name, name, err)
		}
		spec.Ref.Configs[name] = encoded
	}
	if h.Builtin != "" && h.Config != nil {
		options, err := h.Instance(version, "")
		if err != nil {
			return spec, fmt.Errorf("interceptors %s: %w", h.Name, err)
		}
		spec.Ref.Configs[h.InterceptorName()] = options.Config
	}
	for name, o := range h.Overrides {
		spec.Overrides[name] = override(o)
	}
	if h.Builtin != "" {
		local, _ := n.inprocess.get(h.Name)
		spec.Connect = local.connect
		return spec, nil
	}
	ref := spec.Ref
	how := []any{h.URL, h.Headers, h.Command, h.Env} // what is sent with each call does not matter here
	id, err := jsonx.MarshalDeterministic(how)
	if err != nil {
		return spec, fmt.Errorf("interceptors %s: %w", h.Name, err)
	}
	spec.Connect = n.sharing.Connect(h.Name+string(id), func(ctx context.Context) (chain.Conn, error) {
		return n.dialHost(ctx, ref, h.Headers)
	})
	return spec, nil
}

func override(o config.Override) chain.Override {
	out := chain.Override{
		Mode: schemas.Mode(o.Mode), FailOpen: o.FailOpen, Priority: o.Priority, Timeout: o.Timeout, Retries: o.Retries,
		Sample: o.Sample, Budget: o.Budget,
	}
	if o.Enforce != nil {
		out.Enforce = new(chain.Enforce(*o.Enforce))
	}
	for _, h := range o.Hooks {
		phases := []schemas.Phase{schemas.Phase(h.Phase)}
		if h.Phase == "both" {
			phases = []schemas.Phase{schemas.PhaseRequest, schemas.PhaseResponse}
		}
		for _, p := range phases {
			out.Hooks = append(out.Hooks, schemas.Hook{Events: h.Events, Phase: p})
		}
	}
	return out
}

// recordPlan journals a plan, with what deferred work needs to reach its interceptors.
func (n *node) recordPlan(ctx context.Context, plan *chain.Plan) error {
	p, refs := plan.Record()
	rec := &schemas.Record{Event: schemas.Event{Kind: schemas.KindPlan, Tenant: n.cfg.Tenant, Gateway: n.cfg.Gateway.Name, Plan: &p}}
	hosts, err := jsonx.Marshal(refs)
	if err != nil {
		return err
	}
	rec.Add(schemas.RoleHosts, 0, hosts)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return n.recorder.Record(ctx, rec)
}

// planOf returns the plan that stands before a backend, as it is in force at that moment.
func (n *node) planOf(string) func() gateway.Plan {
	return func() gateway.Plan {
		if plan := n.force.Load().set.Current(); plan != nil {
			return plan
		}
		return nil
	}
}
