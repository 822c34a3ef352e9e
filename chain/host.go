package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Conn is a connection to an interceptor server, after the handshake.
type Conn interface {
	Caller
	// Done is closed when the connection is lost; nil if it cannot be.
	Done() <-chan struct{}
	// Close ends the connection and waits for what served it.
	Close() error
}

// HostSpec is one interceptor server of a [Set].
type HostSpec struct {
	HostConfig
	// Connect opens a connection. It is called at start and after each loss, one call at a time.
	Connect func(ctx context.Context) (Conn, error)
}

// maxPages bounds how often a server may say that its list goes on.
const maxPages = 100

// pluralInvoke is the name of interceptor/invoke on servers that follow another draft.
const pluralInvoke = "interceptors/invoke"

// host keeps one interceptor server connected and listed. It is the [Caller] of its interceptors in every plan, so
// that a plan outlives a connection.
type host struct {
	spec   *HostSpec
	log    *slog.Logger
	limit  time.Duration // of one listing, handshake included
	policy retry.Policy

	conn   atomic.Pointer[connection]
	plural atomic.Bool   // the server knows only the plural name of invoke
	stop   func()        // ends keeping it and waits; nil: it is not kept. Covered by Set.mu
	doubt  chan struct{} // has a token when a call failed in a way that may mean a loss
}

// connection gives an interface a place behind an atomic pointer.
type connection struct{ Conn }

// Call implements [Caller]. Without a connection it fails at once with [ErrLost].
func (h *host) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	c := h.conn.Load()
	if c == nil {
		return nil, fmt.Errorf("%w: %s", ErrLost, h.spec.Ref.Host)
	}
	name := method
	if method == interceptor.MethodInvoke && h.plural.Load() {
		name = pluralInvoke
	}
	result, err := c.Call(ctx, name, params)
	if err == nil {
		return result, nil
	}
	rpc, answered := errors.AsType[*wire.RPCError](err)
	switch {
	case answered && rpc.Code == wire.CodeMethodNotFound && name == interceptor.MethodInvoke:
		// It listed interceptors, so it has the method under its other name; nothing was invoked yet.
		if result, err = c.Call(ctx, pluralInvoke, params); err == nil {
			h.plural.Store(true)
		}
	case !answered && ctx.Err() == nil:
		h.suspect()
	}
	return result, err
}

// verified implements verifier: our own server writes strict JSON, and the lean client refuses anything else.
func (h *host) verified() bool {
	c := h.conn.Load()
	if c == nil {
		return false
	}
	conn := c.Conn
	if shared, ok := conn.(*lease); ok {
		conn = shared.Conn
	}
	switch conn := conn.(type) {
	case local:
		return true
	case *remote:
		return conn.strict
	default:
		return false
	}
}

// inProcess returns the server if it is one of this process; its connection is never lost.
func (h *host) inProcess() *interceptor.Server {
	if c := h.conn.Load(); c != nil {
		if conn, ok := c.Conn.(local); ok {
			return conn.server
		}
	}
	return nil
}

// suspect has the server listed again soon.
func (h *host) suspect() {
	select {
	case h.doubt <- struct{}{}:
	default:
	}
}

// open connects and lists.
func (h *host) open(ctx context.Context) ([]schemas.PlanEntry, []schemas.PlanNote, error) {
	ctx, cancel := context.WithTimeout(ctx, h.limit)
	defer cancel()
	conn, err := h.spec.Connect(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: server %q: %w", ErrDiscovery, h.spec.Ref.Host, err)
	}
	entries, notes, err := h.list(ctx, conn)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	h.plural.Store(false)
	h.conn.Store(&connection{conn})
	return entries, notes, nil
}

// list reads all pages.
func (h *host) list(ctx context.Context, caller Caller) (entries []schemas.PlanEntry, notes []schemas.PlanNote, err error) {
	name := h.spec.Ref.Host
	seen := map[string]bool{}
	err = eachPage(ctx, caller, nil, func(answer jsonx.Value) (cursor string, err error) {
		page, err := parseList(name, protocolOf(caller), answer)
		if err != nil {
			return "", err
		}
		for _, entry := range page.entries {
			if seen[entry.Name] { // on another page
				page.notes = append(page.notes, schemas.PlanNote{Host: name, Name: entry.Name, Reason: noteDuplicate})
				continue
			}
			seen[entry.Name] = true
			entries = append(entries, entry)
		}
		notes = append(notes, page.notes...)
		return page.cursor, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: server %q: %w", ErrDiscovery, name, err)
	}
	return entries, notes, nil
}

// eachPage asks a server for its interceptors, those of one event if event is not nil, and has take read each page,
// which returns where the list goes on: "" at its end.
func eachPage(ctx context.Context, caller Caller, event jsonx.Value, take func(answer jsonx.Value) (cursor string, err error)) error {
	var params jsonx.Value
	if event != nil {
		params = wire.WithMember(jsonx.Value("{}"), "event", event)
	}
	for range maxPages {
		answer, err := caller.Call(ctx, interceptor.MethodList, params)
		if err != nil {
			return err
		}
		cursor, err := take(answer)
		if err != nil || cursor == "" {
			return err
		}
		if params == nil {
			params = jsonx.Value("{}")
		}
		params = wire.WithMember(params, "cursor", appendString(nil, cursor))
	}
	return fmt.Errorf("the list has more than %d pages", maxPages)
}

// protocolOf is the protocol version that a connection was agreed on; empty where it is not known.
func protocolOf(caller Caller) string {
	if c, ok := caller.(interface{ protocol() string }); ok {
		return c.protocol()
	}
	if c, ok := caller.(interface{ Server() *wire.Server }); ok {
		if server := c.Server(); server != nil {
			return server.ProtocolVersion
		}
	}
	return ""
}

// refresh lists again over the connection there is. A server that answers with an error stays connected and keeps
// what it listed; one that does not answer is lost.
func (h *host) refresh(ctx context.Context) ([]schemas.PlanEntry, []schemas.PlanNote, error) {
	c := h.conn.Load()
	if c == nil {
		return nil, nil, ErrLost
	}
	limited, cancel := context.WithTimeout(ctx, h.limit)
	defer cancel()
	entries, notes, err := h.list(limited, c.Conn)
	if err == nil || ctx.Err() != nil {
		return entries, notes, err
	}
	if _, answered := errors.AsType[*wire.RPCError](err); !answered && !errors.Is(err, ErrList) {
		h.lose()
	}
	return nil, nil, err
}

// lose drops the connection: calls fail at once from now on.
func (h *host) lose() {
	if c := h.conn.Swap(nil); c != nil {
		if err := c.Close(); err != nil {
			h.log.Debug("lost connection closed", slog.Any("error", err))
		}
	}
}

// lost is closed when the connection there is ends by itself.
func (h *host) lost() <-chan struct{} {
	if c := h.conn.Load(); c != nil {
		return c.Done()
	}
	return nil
}

// keep is the life of the server after it was opened: it is listed at the interval and after a doubt, connected again
// after a loss, and every listing is handed to update. It returns when ctx is done.
func (h *host) keep(ctx context.Context, interval time.Duration, update func(*host, []schemas.PlanEntry, []schemas.PlanNote)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if h.conn.Load() == nil {
			h.reconnect(ctx, update)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-h.lost():
			h.log.WarnContext(ctx, "interceptor server lost")
			h.lose()
			continue
		case <-h.doubt:
		case <-tick.C:
		}
		entries, notes, err := h.refresh(ctx)
		switch {
		case err == nil:
			update(h, entries, notes)
		case ctx.Err() == nil:
			h.log.WarnContext(ctx, "interceptor server not listed", slog.Any("error", err))
		}
	}
}

func (h *host) reconnect(ctx context.Context, update func(*host, []schemas.PlanEntry, []schemas.PlanNote)) {
	policy := h.policy
	policy.Notify = func(err error, tries int, pause time.Duration) {
		h.log.WarnContext(ctx, "interceptor server not reached",
			slog.Any("error", err), slog.Int("tries", tries), slog.Duration("pause", pause))
	}
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		entries, notes, err := h.open(ctx)
		if err == nil {
			update(h, entries, notes)
		}
		return err
	})
	if err == nil {
		h.log.InfoContext(ctx, "interceptor server connected again")
	}
}

// Local serves interceptors of this process: they are called directly, with the same bytes as over the wire.
func Local(server *interceptor.Server) func(context.Context) (Conn, error) {
	return func(context.Context) (Conn, error) { return local{server}, nil }
}

type local struct{ server *interceptor.Server }

func (l local) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	if method == interceptor.MethodInvoke {
		return l.server.Invoke(ctx, params)
	}
	return l.server.Handle(ctx, method, params)
}

func (l local) protocol() string { return wire.Versions()[0] }

func (l local) Done() <-chan struct{} { return nil }
func (l local) Close() error          { return nil }

// Remote serves interceptors behind a connection that open makes: a child process or an HTTP client. The handshake is
// part of connecting; options may be nil.
func Remote(open func(context.Context) (wire.Conn, error), options *wire.ClientOptions) func(context.Context) (Conn, error) {
	return func(ctx context.Context) (Conn, error) {
		conn, err := open(ctx)
		if err != nil {
			return nil, err
		}
		r := &remote{
			Client: wire.NewClient(conn, options), conn: conn, strict: options == nil || !options.Limits.Lenient,
		}
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		r.stop = stop
		r.running.Go(func() { _ = r.Run(running) }) // exits when the connection ends or Close stops it
		if _, err := r.Initialize(ctx); err != nil {
			return nil, errors.Join(err, r.Close()) //nolint:contextcheck // stops in order also when ctx is over
		}
		return r, nil
	}
}

type remote struct {
	*wire.Client
	conn    wire.Conn
	strict  bool // results are strict JSON
	stop    context.CancelFunc
	running sync.WaitGroup
}

// stopWait bounds how long a child process may take to end in order.
const stopWait = 5 * time.Second

// Close implements [Conn].
func (r *remote) Close() error {
	var err error
	if child, ok := r.conn.(*wire.Child); ok {
		ctx, cancel := context.WithTimeout(context.Background(), stopWait)
		defer cancel()
		err = child.Stop(ctx)
	} else {
		err = r.Client.Close()
	}
	r.stop()
	r.running.Wait()
	return err
}
