package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
)

// openGateway makes the gateway over the recorder and the plans in force.
func (n *node) openGateway() (*gateway.Gateway, error) {
	rules, err := n.rulesOf(n.cfg)
	if err != nil {
		return nil, err
	}
	opts := gateway.Options{
		Recorder: n.recorder, Logger: n.log, Key: n.keys.pseudonym, Tenant: n.cfg.Tenant, Gateway: n.cfg.Gateway.Name,
		AuditFull:  func(err error) bool { return errors.Is(err, outbox.ErrFull) },
		MaxMessage: int64(n.cfg.Gateway.MaxBody), MaxDepth: n.cfg.Gateway.MaxDepth,
		Rules: rules, Resolved: chainConfig(n.cfg), ResolvedIdle: n.cfg.Gateway.ResolveIdle,
		Backends: n.backends(n.cfg),
	}
	for _, origin := range n.cfg.Gateway.AllowOrigins {
		if u, err := url.Parse(origin); err == nil && u.Hostname() != "" {
			origin = u.Hostname()
		}
		opts.AllowedHosts = append(opts.AllowedHosts, origin)
	}
	if header := n.cfg.Gateway.PrincipalFrom; header != "" {
		opts.Identify = identifyBy(header)
	}
	return gateway.New(opts)
}

// rulesOf and backends are the part of the configuration that the gateway takes over while it runs.
func (n *node) rulesOf(cfg config.Config) (gateway.Rules, error) {
	g := cfg.Gateway
	rules := gateway.Rules{
		DenyAs: gateway.DenyAs(g.Deny.As), Events: g.Events,
		ServerInfo: gateway.ServerInfo(g.ServerInfo), RepairSchemas: gateway.RepairSchemas(g.RepairSchemas),
		Principal: chain.Principal(g.Principal), Trace: gateway.Trace(g.Trace),
	}
	if g.Expose {
		rules.Expose = hosted{n}
	}
	resolver, err := n.resolverOf(cfg)
	if err == nil && len(resolver) > 0 {
		rules.Resolver = resolver
	}
	return rules, err
}

// resolverOf makes the rules for dynamic interceptor servers; those for another tenant are left out.
func (n *node) resolverOf(cfg config.Config) (gateway.ResolveRules, error) {
	var rules gateway.ResolveRules
	for _, r := range cfg.Gateway.Resolve {
		if len(r.Tenant) > 0 && !slices.ContainsFunc(r.Tenant, func(p string) bool { return interceptor.Match(p, cfg.Tenant, "") }) {
			continue
		}
		rule := gateway.ResolveRule{
			Events: r.Event, Backends: r.Server, Targets: r.Tool, Principals: r.Principal, Headers: r.Header, Alone: r.Alone,
		}
		for _, h := range cfg.Interceptors {
			if !slices.Contains(r.Interceptors, h.Name) {
				continue
			}
			spec, err := n.hostSpec(h)
			if err != nil {
				return nil, err
			}
			rule.Hosts = append(rule.Hosts, spec)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func (n *node) backends(cfg config.Config) []gateway.Backend {
	all := make([]gateway.Backend, 0, len(cfg.Backends))
	for _, b := range cfg.Backends {
		all = append(all, gateway.Backend{
			Name: b.Name, URL: b.URL, Transport: b.Transport, Headers: b.Headers, Command: b.Command, Env: b.Env, Dir: b.Dir, Shared: b.Shared,
			Bridge: b.Bridge,
			Plan:   n.planOf(b.Name),
		})
	}
	return all
}

// identifyBy trusts a header that the authenticating proxy in front sets.
func identifyBy(header string) func(*http.Request) (gateway.Caller, error) {
	return func(r *http.Request) (gateway.Caller, error) {
		values := r.Header.Values(header)
		switch {
		case len(values) == 0 || values[0] == "":
			return gateway.Caller{Principal: chain.Principal{Type: "anonymous"}}, nil
		case len(values) > 1:
			return gateway.Caller{}, fmt.Errorf("header %s stands there %d times", header, len(values))
		}
		return gateway.Caller{Principal: chain.Principal{Type: "user", ID: values[0]}, VerifiedBy: "header:" + header}, nil
	}
}

// serveGateway serves every backend over HTTP and sets n.gatewayURL.
func (n *node) serveGateway(ctx context.Context) error {
	gw, err := n.openGateway()
	if err != nil {
		return usage(err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", n.cfg.Gateway.Listen)
	if err != nil {
		return errors.Join(withHint(fmt.Errorf("listen for clients: %w", err), "stop what listens there, or set gateway.listen"), gw.Close()) //nolint:contextcheck // Close bounds itself: what it ends must be recorded
	}
	n.gateway = gw
	n.gatewayURL = "http://" + listener.Addr().String()
	server := &http.Server{Handler: gw.Handler(), ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	failed := make(chan error, 1)
	return n.group.Start(ctx, lifecycle.Part{
		Name: "gateway",
		Start: func(context.Context) error {
			go func() { // exits when the server is closed
				if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
					failed <- err
				}
			}()
			return nil
		},
		// Open exchanges finish first, then streams end, then connections close.
		Stop: func(ctx context.Context) error {
			err := gw.Drain(ctx)
			err = errors.Join(err, gw.Close()) //nolint:contextcheck // Close bounds itself: what it ends must be recorded
			if shutdownErr := server.Shutdown(ctx); shutdownErr != nil {
				return errors.Join(err, shutdownErr, server.Close())
			}
			return err
		},
		Failed: failed,
	})
}

// serveStdio serves the one backend on standard input and output until the client closes its side.
func (n *node) serveStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	gw, err := n.openGateway()
	if err != nil {
		return usage(err)
	}
	if err := n.group.Start(ctx, lifecycle.Part{
		Name:  "gateway",
		Start: func(context.Context) error { return nil },
		Stop: func(ctx context.Context) error {
			return errors.Join(gw.Drain(ctx), gw.Close()) //nolint:contextcheck // Close bounds itself: what it ends must be recorded
		},
	}); err != nil {
		return errors.Join(err, gw.Close()) //nolint:contextcheck // Close bounds itself: what it ends must be recorded
	}
	return gw.ServeStdio(ctx, in, out)
}
