package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chaintrail/chaintrail/chain"
)

// Gateway carries MCP traffic between clients and the configured backends. All methods may be called
// concurrently.
type Gateway struct {
	opts     Options
	rules    *atomic.Pointer[Rules]
	registry *registry
	life     *life
	idle     func() // closes idle upstream connections
	once     sync.Once
	closeErr error

	pool      *chain.Pool
	table     atomic.Pointer[table]
	reloading sync.Mutex // covers replacing table and rules
}

// New makes a gateway. It starts nothing: children are started when a session needs one.
func New(opts Options) (*Gateway, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	g := &Gateway{
		opts: opts.withDefaults(), rules: new(atomic.Pointer[Rules]), registry: nil, life: newLife(),
		idle: func() {},
	}
	g.rules.Store(&g.opts.Rules)
	g.registry = newRegistry(g.opts.MaxOpen)
	if g.opts.Transport == nil {
		t := newTransport()
		g.opts.Transport, g.idle = t, t.CloseIdleConnections
	}
	g.pool = chain.NewPool(chain.PoolOptions{
		Set:  chain.SetOptions{Config: opts.Resolved, Logger: g.opts.Logger, OnPlan: g.recordPlan},
		Idle: opts.ResolvedIdle,
	})
	t, err := g.newTable(g.opts.Backends, &table{})
	if err != nil {
		return nil, err
	}
	g.table.Store(t)
	return g, nil
}

// newTransport is tuned for many small calls to few hosts. Compression is off: bodies are recorded
// and forwarded as they are.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 512
	t.DisableCompression = true
	t.IdleConnTimeout = 90 * time.Second
	t.WriteBufferSize, t.ReadBufferSize = 16<<10, 16<<10
	return t
}

// Handler serves /<backend>/mcp for every backend, /<backend>/sse and /<backend>/message for clients of
// the transport of 2024-11-05, and the authorization metadata of HTTP backends at their well-known
// places.
func (g *Gateway) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		front := g.route(r)
		if front == nil {
			http.Error(w, "no such backend: the path is /<backend>/mcp", http.StatusNotFound)
			return
		}
		if err := checkOrigin(r, g.opts.AllowedHosts); err != nil {
			http.Error(w, "Forbidden: "+err.Error(), http.StatusForbidden)
			return
		}
		front.ServeHTTP(w, r)
	})
}

// route finds who serves a request; nil: nobody.
func (g *Gateway) route(r *http.Request) http.Handler {
	if strings.Contains(r.URL.Path, wellKnownPrefix) {
		if front, ok := g.wellKnown(r.URL.Path); ok {
			return front
		}
		return nil
	}
	t := g.table.Load()
	name, place := splitPath(r.URL.Path)
	switch place {
	case "mcp":
		return t.front(name, r)
	case "sse":
		if h := hubOf(t.fronts[name]); h != nil {
			return http.HandlerFunc(h.serveSSE)
		}
	case "message":
		if h := t.hubOfStream(name, r.URL.Query().Get("sessionId")); h != nil {
			return http.HandlerFunc(h.message)
		}
	}
	return nil
}

// wellKnown is who serves a well-known document; only a backend over HTTP has any.
func (g *Gateway) wellKnown(path string) (http.Handler, bool) {
	only := ""
	t := g.table.Load()
	if len(t.backends) == 1 {
		only = t.backends[0].Name
	}
	p, ok := placeOf(path, only)
	r, isRelay := t.fronts[p.backend].(*relay)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.wellKnown(w, req, p) }), ok && isRelay
}

func backendOf(path string) (string, bool) {
	name, place := splitPath(path)
	return name, place == "mcp"
}

func splitPath(path string) (backend, place string) {
	backend, place, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return backend, strings.TrimSuffix(place, "/")
}

// Open is the number of exchanges that are open.
func (g *Gateway) Open() int { return g.registry.count() }

// Stray is the number of answers to ids that nobody waited for; they were not forwarded. What a backend
// counted is forgotten when a reload takes it away.
func (g *Gateway) Stray() uint64 {
	var n uint64
	t := g.table.Load()
	for _, l := range t.lanes {
		n += l.stray.Load()
	}
	for _, old := range t.former {
		for _, f := range old {
			n += f.lane.stray.Load()
		}
	}
	return n
}

// Drain takes no new exchanges and waits until the open ones have ended. At the end of ctx it
// records the outcome "stopped" for those that are left and returns [ErrDrainExpired]. Streams and
// children stay: call Close afterwards.
func (g *Gateway) Drain(ctx context.Context) error {
	rest, parked := g.registry.stop(ctx)
	for _, x := range append(parked, rest...) {
		// The drain is over, the record of its end is not.
		_, a := x.interrupt(context.WithoutCancel(ctx), errStopped)
		x.answer(a)
	}
	if len(rest) == 0 {
		return nil
	}
	g.opts.Logger.WarnContext(ctx, "exchanges stopped", slog.Int("exchanges", len(rest)))
	return fmt.Errorf("%w: %d", ErrDrainExpired, len(rest))
}

// closeWait bounds how long Close waits for what it ended.
const closeWait = 10 * time.Second

// Close ends every exchange as stopped, every stream and every child, and waits for them. Call Drain
// before to let exchanges finish. It may be called more than once.
func (g *Gateway) Close() error {
	g.once.Do(func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		_ = g.Drain(done) // what is left is stopped, and says so in its outcome
		ctx, cancel := context.WithTimeoutCause(context.Background(), closeWait, fmt.Errorf("gateway did not close within %s", closeWait))
		defer cancel()
		for _, f := range g.table.Load().all() {
			hubOf(f).close(ctx)
		}
		g.closeErr = g.life.close(ctx)
		g.pool.Close()
		g.idle()
	})
	return g.closeErr
}
