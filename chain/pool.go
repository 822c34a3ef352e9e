package chain

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Defaults of [PoolOptions].
const (
	DefaultPoolIdle  = 5 * time.Minute
	DefaultPoolHosts = 256
)

// maxMerged bounds the plans that a pool remembers; what is over it makes it forget all.
const maxMerged = 256

// PoolOptions are what a [Pool] is made of. Zero values mean the defaults.
type PoolOptions struct {
	Set   SetOptions    // of each server; Hosts is not used, OnPlan gets every plan that the pool makes
	Idle  time.Duration // a server that no message used for so long is let go
	Hosts int           // servers connected at a time; more are refused
}

// Pool connects interceptor servers when messages need them, and makes plans with them. All methods are concurrent.
//
// Failure behaviour: a server that cannot be connected, a plan that cannot be made or is not taken by OnPlan, is an error
// for the message that needs it; the next one tries again.
type Pool struct {
	opts PoolOptions
	log  *slog.Logger

	mu      sync.Mutex // covers the rest
	hosts   map[string]*pooled
	merged  map[mergedKey]*Plan
	renewed []*pooled // not used for new messages any more
	closed  bool
	ends    sync.WaitGroup
}

// pooled is one server of a pool.
type pooled struct {
	set   *Set
	ready chan struct{} // closed when connected, or failed
	err   error         // read after ready
	stop  context.CancelFunc
	users int         // covered by Pool.mu
	idle  *time.Timer // covered by Pool.mu; nil while it has users
}

type mergedKey struct {
	base  *Plan
	plans string // their digests and servers
}

// ErrPool is returned when a pool cannot make a plan; the text names the server and the reason.
var ErrPool = errors.New("interceptor servers for this message")

// NewPool returns a pool without servers. It MUST be closed.
func NewPool(opts PoolOptions) *Pool {
	opts.Idle = cmp.Or(max(opts.Idle, 0), DefaultPoolIdle)
	opts.Hosts = cmp.Or(max(opts.Hosts, 0), DefaultPoolHosts)
	log := opts.Set.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Pool{opts: opts, log: log, hosts: map[string]*pooled{}, merged: map[mergedKey]*Plan{}}
}

// Plan returns the plan of base, which may be nil, and of the servers, in one order over all of them. A server is known
// by its Ref.Host: what is connected under that name is used again. release MUST be called once when the message has
// ended. ctx bounds the wait, not the connecting.
func (p *Pool) Plan(ctx context.Context, base *Plan, hosts []HostSpec) (plan *Plan, release func(), err error) {
	var names []string
	var held []*pooled
	release = func() {
		for i, one := range held {
			p.leave(names[i], one)
		}
	}
	plans := make([]*Plan, 0, len(hosts)+1)
	if base != nil {
		plans = append(plans, base)
	}
	for i := range hosts {
		name := hosts[i].Ref.Host
		if slices.Contains(names, name) {
			continue
		}
		one, err := p.enter(&hosts[i]) //nolint:contextcheck // a connection outlives the message that needed it first
		if err != nil {
			release()
			return nil, nil, err
		}
		names, held = append(names, name), append(held, one)
		select {
		case <-one.ready:
			err = one.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("%w: %q: %w", ErrPool, name, err)
		}
		plans = append(plans, one.set.Current())
	}
	plan, err = p.merge(ctx, base, plans, names)
	if err != nil {
		release()
		return nil, nil, err
	}
	return plan, release, nil
}

// enter takes a place at a server, and connects it if it is not.
func (p *Pool) enter(spec *HostSpec) (*pooled, error) {
	name := spec.Ref.Host
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("%w: the pool is closed", ErrPool)
	}
	if one := p.hosts[name]; one != nil {
		one.users++
		if one.idle != nil {
			one.idle.Stop()
			one.idle = nil
		}
		return one, nil
	}
	if len(p.hosts) >= p.opts.Hosts {
		return nil, fmt.Errorf("%w: %d servers are connected, no more are allowed", ErrPool, len(p.hosts))
	}
	opts := p.opts.Set
	opts.Hosts, opts.OnPlan = []HostSpec{*spec}, nil
	set, err := NewSet(opts)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	one := &pooled{set: set, ready: make(chan struct{}), stop: stop, users: 1}
	p.hosts[name] = one
	p.ends.Go(func() { p.serve(ctx, name, one) }) // exits when it cannot be connected, is idle, or with the pool
	return one, nil
}

func (p *Pool) serve(ctx context.Context, name string, one *pooled) {
	defer one.stop()
	one.err = one.set.Start(ctx)
	if one.err != nil {
		p.forget(name, one)
		close(one.ready)
		return
	}
	close(one.ready)
	_ = one.set.Run(ctx) // it has no other end than ctx
}

func (p *Pool) forget(name string, one *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts[name] == one {
		delete(p.hosts, name)
	}
}

// leave gives up a place; a server without users is let go after the idle time.
func (p *Pool) leave(name string, one *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.users--; one.users > 0 || p.closed {
		return
	}
	if p.hosts[name] != one { // it was renewed, or could not be connected
		one.stop()
		return
	}
	one.idle = time.AfterFunc(p.opts.Idle, func() { // ends with the timer; stopped by enter and Close
		p.mu.Lock()
		defer p.mu.Unlock()
		if one.users > 0 || p.hosts[name] != one {
			return
		}
		delete(p.hosts, name)
		clear(p.merged) // they would hold on to it
		one.stop()
	})
}

// merge makes one plan of several, or finds it.
func (p *Pool) merge(ctx context.Context, base *Plan, plans []*Plan, hosts []string) (*Plan, error) {
	if len(hosts) == 0 && base != nil {
		return base, nil
	}
	key := mergedKey{base: base, plans: strings.Join(hosts, "+")}
	for _, one := range plans {
		key.plans += "\x00" + one.record.Digest.String()
	}
	p.mu.Lock()
	plan := p.merged[key]
	p.mu.Unlock()
	if plan != nil && plan.alive(plans) {
		return plan, nil
	}
	config := p.opts.Set.Config
	if base != nil {
		config = base.config
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	config.Server = strings.Join(append([]string{config.Server}, hosts...), "+")
	plan, err := mergePlans(config, plans)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPool, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock() // one at a time, so that each plan is recorded once
	if made := p.merged[key]; made != nil && made.alive(plans) {
		return made, nil
	}
	if p.opts.Set.OnPlan != nil {
		if err := p.opts.Set.OnPlan(ctx, plan); err != nil {
			return nil, fmt.Errorf("%w: record plan: %w", ErrPool, err)
		}
	}
	if len(p.merged) >= maxMerged {
		clear(p.merged)
	}
	p.merged[key] = plan
	return plan, nil
}

// alive reports whether a merged plan has the members of these very plans, not of ones that were connected before.
func (p *Plan) alive(plans []*Plan) bool {
	n := 0
	for _, one := range plans {
		for _, m := range one.members {
			if !slices.Contains(p.members, m) {
				return false
			}
			n++
		}
	}
	return n == len(p.members)
}

// mergePlans puts the interceptors of several plans in one order.
func mergePlans(config Config, plans []*Plan) (*Plan, error) {
	p := &Plan{config: config, record: schemas.Plan{Server: config.Server}}
	owners := map[string]string{}
	for _, one := range plans {
		for _, m := range one.members {
			if owner, taken := owners[m.entry.Name]; taken {
				return nil, fmt.Errorf("%w: interceptor %q is listed by servers %q and %q", ErrConfig, m.entry.Name, owner, m.entry.Host)
			}
			owners[m.entry.Name] = m.entry.Host
			p.members = append(p.members, m)
		}
		p.record.Ignored = append(p.record.Ignored, one.record.Ignored...)
		p.refs = append(p.refs, one.refs...)
	}
	slices.SortFunc(p.members, func(a, b *Interceptor) int { return cmp.Compare(a.entry.Name, b.entry.Name) })
	p.record.Entries = make([]schemas.PlanEntry, len(p.members))
	for i, m := range p.members {
		p.record.Entries[i] = m.entry
	}
	text, err := jsonx.MarshalDeterministic(p.record.Entries)
	if err != nil {
		return nil, fmt.Errorf("digest plan: %w", err)
	}
	p.record.Digest = sha256.Sum256(text)
	p.fill()
	return p, nil
}

// Renew has every server connected anew by the next message that needs it, as what is configured may have changed.
// Messages that run keep the servers they have.
func (p *Pool) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, one := range p.hosts {
		delete(p.hosts, name)
		if one.idle != nil {
			one.idle.Stop()
		}
		if one.users == 0 {
			one.stop()
		} else {
			p.renewed = append(slices.DeleteFunc(p.renewed, func(o *pooled) bool { return o.users == 0 }), one)
		}
	}
	clear(p.merged)
}

// Connected returns how many servers are connected or being connected.
func (p *Pool) Connected() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.hosts)
}

// Close lets every server go and waits for that. Messages that still run then fail.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, one := range p.renewed {
		one.stop()
	}
	for _, one := range p.hosts {
		if one.idle != nil {
			one.idle.Stop()
		}
		one.stop()
	}
	p.mu.Unlock()
	p.ends.Wait()
}
