package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Actions of the admin events of a reload.
const (
	actionConfig        = "config"         // a configuration came into force
	actionConfigRefused = "config_refused" // the one before stays
)

var errReplaced = errors.New("another configuration is in force")

// force is what a reload replaces: a configuration with its interceptor servers.
type force struct {
	cfg      config.Config
	set      *chain.Set
	breakers *chain.Breakers // the same as before where their settings are
	run      lifecycle.Part
	replaced chan struct{} // closed when another one is in force
}

// config is the configuration in force.
func (n *node) config() config.Config {
	if f := n.force.Load(); f != nil {
		return f.cfg
	}
	return n.cfg
}

// reloads keeps the replaced configurations until nothing runs under them.
type reloads struct {
	node    *node
	retired sync.WaitGroup
}

// watchReload reads the configuration again at each SIGHUP.
func (n *node) watchReload(ctx context.Context) error {
	r := &reloads{node: n}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return n.group.Start(ctx, lifecycle.Background("reload", func(ctx context.Context) error {
		defer signal.Stop(signals)
		defer r.retired.Wait()
		for {
			select {
			case <-signals:
				r.reload(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	}))
}

// reload puts the configuration in force as it is now; a bad one is refused, and the old one stays.
func (r *reloads) reload(ctx context.Context) {
	n := r.node
	cfg, err := n.reread()
	if err == nil {
		err = r.replace(ctx, cfg)
	}
	if err != nil {
		n.log.ErrorContext(ctx, "the configuration is refused, the one in force stays", slog.Any("error", err))
	} else {
		n.log.InfoContext(ctx, "the configuration is in force")
	}
	if recErr := n.recordReload(ctx, &cfg, err); recErr != nil {
		n.log.ErrorContext(ctx, "reload not recorded", slog.Any("error", recErr))
	}
}

// reread loads the configuration and refuses what a running process cannot take over.
func (n *node) reread() (config.Config, error) {
	if n.reloadable == nil {
		return config.Config{}, errors.New("this process runs without a configuration file")
	}
	cfg, err := n.reloadable()
	if err != nil {
		return config.Config{}, err
	}
	if changed := fixedChanges("", reflect.ValueOf(fixed(n.config())), reflect.ValueOf(fixed(cfg))); len(changed) > 0 {
		return cfg, fmt.Errorf("%s changed: start the process anew for that, or take it back", strings.Join(changed, ", "))
	}
	return cfg, nil
}

// fixed is the part of a configuration that is read once, at start.
func fixed(c config.Config) config.Config {
	c.Backends, c.Interceptors = nil, nil
	g := &c.Gateway
	g.Deny, g.ChainTimeout, g.RefreshEvery, g.Breaker, g.Resolve = config.Deny{}, 0, 0, config.Breaker{}, nil
	g.Events, g.ServerInfo, g.RepairSchemas, g.Expose = nil, config.ServerInfo{}, "", false
	g.Principal, g.Trace = config.Principal{}, ""
	return c
}

// fixedChanges names the keys that differ.
func fixedChanges(path string, a, b reflect.Value) []string {
	var keys []string
	for i := range a.NumField() {
		key := a.Type().Field(i).Tag.Get("yaml")
		if path != "" {
			key = path + "." + key
		}
		switch {
		case reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
		case a.Field(i).Kind() == reflect.Struct:
			keys = append(keys, fixedChanges(key, a.Field(i), b.Field(i))...)
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// replace connects what is new, records and swaps, and lets go of what is old when nothing runs under it.
func (r *reloads) replace(ctx context.Context, cfg config.Config) error {
	n := r.node
	next, err := n.newForce(cfg)
	if err != nil {
		return err
	}
	if err := next.set.Start(ctx); err != nil {
		return err
	}
	if err := next.run.Start(ctx); err != nil {
		return err
	}
	old := n.force.Load()
	n.force.Store(next)
	rules, err := n.rulesOf(cfg)
	if err == nil {
		err = n.gateway.Reload(ctx, n.backends(cfg), rules)
	}
	if err != nil {
		n.force.Store(old)
		close(next.replaced)
		return errors.Join(err, next.run.Stop(ctx), n.recordPlan(ctx, old.set.Current()))
	}
	close(old.replaced)
	r.retired.Go(func() { // exits when nothing runs under it any more, or with the process
		_ = n.gateway.Settled(ctx)
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopOld)
		defer cancel()
		if err := old.run.Stop(stopCtx); err != nil {
			n.log.WarnContext(stopCtx, "replaced interceptor servers not let go", slog.Any("error", err))
		}
	})
	return nil
}

// stopOld bounds how long interceptor servers that are not configured any more may take to end.
const stopOld = 15 * time.Second

// recordReload journals that a configuration came into force, or why it did not.
func (n *node) recordReload(ctx context.Context, cfg *config.Config, refused error) error {
	admin := &schemas.Admin{Action: actionConfig}
	if text, err := yaml.Marshal(cfg); err == nil && cfg.Data != "" {
		admin.Digest = n.keys.pseudonym.Digest("config", text) // it may hold secrets, which a plain hash would let guess
	}
	rec := &schemas.Record{Event: schemas.Event{
		Kind: schemas.KindAdmin, Tenant: n.cfg.Tenant, Gateway: n.cfg.Gateway.Name, Admin: admin,
	}}
	if refused != nil {
		admin.Action = actionConfigRefused
		detail, err := jsonx.Marshal(&schemas.Detail{Error: refused.Error()})
		if err != nil {
			return err
		}
		rec.Add(schemas.RoleDetail, 0, detail)
	}
	return n.recorder.Record(ctx, rec)
}
