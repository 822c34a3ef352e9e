package main

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
)

// connect opens a connection to an interceptor server.
type connect = func(ctx context.Context) (chain.Conn, error)

// localHost is an interceptor server of this process.
type localHost struct {
	connect connect
	builtin string // what a built-in was made of; empty: it is none
}

// localHosts are the interceptor servers of this process. The zero value is ready.
type localHosts struct {
	mu    sync.Mutex // covers hosts
	hosts map[string]localHost
}

func (l *localHosts) get(host string) (localHost, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.hosts[host]
	return h, ok
}

func (l *localHosts) put(host string, h localHost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = map[string]localHost{}
	}
	l.hosts[host] = h
}

func (l *localHosts) all() map[string]localHost {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.hosts)
}

// addLocal makes interceptors of this process part of the plan.
func (n *node) addLocal(host string, server *interceptor.Server) {
	n.inprocess.put(host, localHost{connect: chain.Local(server)})
}

// addBuiltins makes the configured built-ins, each with state of its own, once for chain and deferred work. One that is
// there and configured as before stays, with its state.
func (n *node) addBuiltins(cfg config.Config) error {
	for i := range cfg.Interceptors {
		h := &cfg.Interceptors[i]
		if h.Builtin == "" {
			continue
		}
		form, err := yaml.Marshal([]any{h.Builtin, h.As, h.Config})
		if err != nil {
			return usage(fmt.Errorf("interceptors %s: %w", h.Name, err))
		}
		if have, ok := n.inprocess.get(h.Name); ok && have.builtin == string(form) {
			continue
		}
		options, err := h.Instance(version, n.cfg.Dir("interceptors", h.Name))
		if err != nil {
			return usage(fmt.Errorf("interceptors %s: %w", h.Name, err))
		}
		made, err := builtin.New(h.Builtin, &options)
		if err != nil {
			return usage(fmt.Errorf("interceptors %s: %w", h.Name, err))
		}
		server, err := interceptor.New(&interceptor.Options{Name: h.Name, Version: version, Logger: n.log}, made)
		if err != nil {
			return usage(fmt.Errorf("interceptors %s: %w", h.Name, err))
		}
		n.inprocess.put(h.Name, localHost{connect: chain.Local(server), builtin: string(form)})
	}
	return nil
}
