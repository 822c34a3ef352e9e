package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// table is who serves which backend. It never changes: a reload puts another one in its place.
type table struct {
	backends []Backend
	lanes    map[string]*lane
	fronts   map[string]http.Handler
	former   map[string][]*former // sessions that began before their backend was changed
}

// former is a front that a reload replaced. It goes on with the sessions it has.
type former struct {
	lane  *lane
	front http.Handler
	used  atomic.Int64 // unix nanoseconds of the last request
}

// holder is a front that knows its sessions.
type holder interface {
	holds(session string) bool
}

func (h *hub) holds(id string) bool { return h.session(id) != nil }

func (r *relay) holds(id string) bool { return r.lane.sessions.has(id) || r.hub.holds(id) }

// hubOf is the hub that makes the sessions of a front, where the server has none; nil for no front.
func hubOf(front http.Handler) *hub {
	switch f := front.(type) {
	case *hub:
		return f
	case *relay:
		return f.hub
	}
	return nil
}

// hubOfStream finds the hub of a session of 2024-11-05, else that of the backend; nil: there is none.
func (t *table) hubOfStream(name, session string) *hub {
	for _, f := range t.former[name] {
		if h := hubOf(f.front); h.stream(session) != nil {
			return h
		}
	}
	return hubOf(t.fronts[name])
}

// front finds who serves a request to a backend; nil: nobody.
func (t *table) front(name string, r *http.Request) http.Handler {
	if old := t.former[name]; len(old) > 0 {
		id := r.Header.Get(wire.HeaderSessionID)
		for _, f := range old {
			if h, ok := f.front.(holder); ok && id != "" && h.holds(id) {
				f.used.Store(time.Now().UnixNano())
				return f.front
			}
		}
	}
	return t.fronts[name]
}

// all returns every front.
func (t *table) all() []http.Handler {
	fronts := slices.Collect(maps.Values(t.fronts))
	for _, old := range t.former {
		for _, f := range old {
			fronts = append(fronts, f.front)
		}
	}
	return fronts
}

// newTable makes the fronts of backends, and takes over from prev what is reached as before.
func (g *Gateway) newTable(backends []Backend, prev *table) (*table, error) {
	t := &table{
		backends: slices.Clone(backends), lanes: make(map[string]*lane, len(backends)),
		fronts: make(map[string]http.Handler, len(backends)), former: maps.Clone(prev.former),
	}
	for i := range t.backends {
		b := &t.backends[i]
		old := prev.lanes[b.Name]
		if old != nil && sameReach(old.backend, b) {
			t.lanes[b.Name], t.fronts[b.Name] = old, prev.fronts[b.Name]
			continue
		}
		l := newLane(b, &g.opts, g.rules, g.registry, g.pool)
		if old != nil && b.URL != "" && old.backend.URL == b.URL && old.relayed() && old.backend.Transport == b.Transport {
			l.inherit(old) // the same server: its sessions go on, with other headers
		}
		front, err := g.newFront(l)
		if err != nil {
			return nil, fmt.Errorf("backend %q: %w", b.Name, err)
		}
		t.lanes[b.Name], t.fronts[b.Name] = l, front
	}
	return t, nil
}

func (g *Gateway) newFront(l *lane) (http.Handler, error) {
	h := newHub(l, g.life)
	if l.backend.URL == "" || l.backend.Transport == TransportSSE {
		return h, nil // it has no sessions of its own that streamable HTTP could relay
	}
	return newRelay(l, g.life, h)
}

// sameReach reports whether two configurations of a backend lead to it in the same way.
func sameReach(a, b *Backend) bool {
	x, y := *a, *b
	x.Plan, y.Plan = nil, nil
	return reflect.DeepEqual(x, y)
}

// Reload puts other backends and rules in force, or returns an error and changes nothing. Exchanges that
// are open keep the plan, the rules and the backend they began with. Sessions go on: those of a backend
// that is reached as before, or at the same URL with other headers, where they are; those of a backend
// that was changed at the old one, until they end or are unused for Options.SessionIdle. Only sessions of
// a backend that is gone end, after their open exchanges. Clients on stdio keep what they began with.
//
// The other fields of Options stay as they are. Reload may be called while the gateway serves.
func (g *Gateway) Reload(ctx context.Context, backends []Backend, rules Rules) error {
	if err := validateBackends(backends); err != nil {
		return err
	}
	if err := rules.validate(); err != nil {
		return err
	}
	if g.registry.isStopping() {
		return ErrStopping
	}
	g.reloading.Lock()
	defer g.reloading.Unlock()
	prev := g.table.Load()
	next, err := g.newTable(backends, prev)
	if err != nil {
		return err
	}
	var gone []*former
	for name, l := range prev.lanes {
		if next.lanes[name] == l {
			continue
		}
		f := &former{lane: l, front: prev.fronts[name]}
		f.used.Store(time.Now().UnixNano())
		gone = append(gone, f)
		if changed := next.lanes[name]; changed != nil && changed.sessions != l.sessions {
			next.former = addFormer(next.former, name, f)
		}
	}
	for i := range next.backends {
		b := &next.backends[i]
		next.lanes[b.Name].source.Store(&b.Plan)
	}
	g.rules.Store(&rules)
	g.table.Store(next)
	g.pool.Renew()
	for _, f := range gone {
		work, end := g.life.begin(ctx, true)
		if end == nil {
			return ErrStopping
		}
		go func() { // exits when the front has nothing left to do, or with the gateway
			defer end()
			g.retire(work, f)
		}()
	}
	return nil
}

func addFormer(m map[string][]*former, name string, f *former) map[string][]*former {
	if m == nil {
		m = make(map[string][]*former, 1)
	}
	m[name] = append(slices.Clone(m[name]), f)
	return m
}

// retire waits until a replaced front has nothing left to do, and ends it.
func (g *Gateway) retire(ctx context.Context, f *former) {
	_ = g.Settled(ctx)
	name := f.lane.backend.Name
	tick := time.NewTicker(idleCheck(g.opts.SessionIdle))
	defer tick.Stop()
	for g.isFormer(name, f) && !f.idle(g.opts.SessionIdle) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return // Close ends what is left
		}
	}
	g.dropFormer(name, f)
	hubOf(f.front).close(ctx)
	g.opts.Logger.InfoContext(ctx, "replaced backend ended", slog.String("backend", name))
}

// idle reports whether no session is left, as far as the front can tell.
func (f *former) idle(limit time.Duration) bool {
	h := hubOf(f.front)
	h.mu.Lock()
	made := len(h.sessions) + h.starting
	h.mu.Unlock()
	if !f.lane.relayed() || made > 0 {
		return made == 0
	}
	return time.Since(time.Unix(0, f.used.Load())) >= limit
}

func (g *Gateway) isFormer(name string, f *former) bool {
	return slices.Contains(g.table.Load().former[name], f)
}

func (g *Gateway) dropFormer(name string, f *former) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if !g.isFormer(name, f) {
		return
	}
	next := *g.table.Load()
	next.former = maps.Clone(next.former)
	rest := slices.DeleteFunc(slices.Clone(next.former[name]), func(o *former) bool { return o == f })
	if next.former[name] = rest; len(rest) == 0 {
		delete(next.former, name)
	}
	g.table.Store(&next)
}

// Settled returns when every exchange that was open at the call has ended, or with the cause of ctx. What
// only listens, such as subscriptions/listen, is not waited for.
func (g *Gateway) Settled(ctx context.Context) error {
	select {
	case <-g.registry.settled():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
