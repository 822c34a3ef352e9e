package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// Settings of Backend.Bridge.
const (
	BridgeAuto   = "auto"
	BridgeAlways = "always"
	BridgeOff    = "off"
)

// mayCross reports whether a request may be translated at all. A refused server/discover leads clients
// that speak both generations to initialize, by which nothing is lost: only on demand it is answered
// in the server's place.
func (b *Backend) mayCross(method string) bool {
	return b.Bridge != BridgeOff && (method != methodDiscover || b.Bridge == BridgeAlways)
}

// helloWait bounds the handshake with a server of the other generation.
const helloWait = 15 * time.Second

// bridge is a connection to a server that may be of the other generation than its client. Bytes pass
// untouched until the server refuses the client's generation and accepts the other; from then on
// every message of the connection is translated.
//
// Failure behaviour: a server that accepts neither is left alone, and its own refusal goes back.
type bridge struct {
	lane  *lane
	inner wire.Conn

	to     atomic.Pointer[func([]byte)] // takes what the server sends unasked
	passes atomic.Bool                  // both ends are of one generation
	tap    atomic.Pointer[tap]          // takes what the far side answers; nil: there is no far side
	far    atomic.Pointer[far]          // nil: not bridged
	hello  chan struct{}                // holds a token during a handshake
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	ended   bool
	tried   map[string]*attempt // requests whose generation the server may refuse, by wire.IDKey
	nextRun uint64
	running map[uint64]context.CancelFunc
}

// attempt is a request on its way to a server that was not seen to serve its generation.
type attempt struct {
	msg     *wire.Message
	speaks  generation
	deliver func([]byte)
}

func newBridge(l *lane, inner wire.Conn) *bridge {
	return &bridge{
		lane: l, inner: inner, hello: make(chan struct{}, 1),
		tried: make(map[string]*attempt), running: make(map[uint64]context.CancelFunc),
	}
}

// Synchronous tells that Send returns with the answer. Translated requests are answered later.
func (b *bridge) Synchronous() bool { return b.far.Load() == nil && synchronous(b.inner) }

// peerVersion is the protocol version of the server where it is another than the client's.
func (b *bridge) peerVersion() string {
	if f := b.far.Load(); f != nil {
		return f.server.ProtocolVersion
	}
	return ""
}

// Send implements wire.Conn.
func (b *bridge) Send(ctx context.Context, raw []byte, deliver func([]byte)) error {
	if b.passes.Load() {
		return b.inner.Send(ctx, raw, deliver) //nolint:wrapcheck // it is the connection's own
	}
	if deliver == nil {
		deliver = b.deliver
	}
	msg, err := wire.Parse(raw, b.lane.limits(true))
	if err != nil {
		return b.inner.Send(ctx, raw, deliver) //nolint:wrapcheck // likewise
	}
	if f := b.far.Load(); f != nil {
		return f.take(ctx, &msg, deliver)
	}
	g, proven := speaks(&msg, "")
	if msg.Kind != wire.KindRequest || !proven {
		return b.inner.Send(ctx, raw, b.filter(ctx, deliver)) //nolint:wrapcheck // likewise
	}
	a := &attempt{msg: &msg, speaks: g, deliver: deliver}
	if b.lane.spoken.crosses(g) && b.lane.backend.mayCross(msg.Method) {
		return b.spawn(ctx, func(ctx context.Context) { b.cross(ctx, a, nil) })
	}
	return b.try(ctx, a)
}

// filter takes the answers to attempts out of what the server sends.
func (b *bridge) filter(ctx context.Context, deliver func([]byte)) func([]byte) {
	return func(raw []byte) { b.incoming(ctx, raw, deliver) }
}

// try sends a request as it is, and remembers it until it is clear whether the server is of its
// generation.
func (b *bridge) try(ctx context.Context, a *attempt) error {
	key := wire.IDKey(a.msg.ID)
	b.mu.Lock()
	if len(b.tried) < b.lane.opts.MaxPending { // else it goes as any other message
		b.tried[key] = a
	}
	b.mu.Unlock()
	err := b.inner.Send(ctx, a.msg.Raw, b.filter(ctx, a.deliver))
	if err == nil || b.attempt(key) == nil {
		return err //nolint:wrapcheck // it is the connection's own
	}
	if status, ok := errors.AsType[*wire.StatusError](err); !ok || !refusalStatus(status.Status) || !b.lane.backend.mayCross(a.msg.Method) {
		return err //nolint:wrapcheck // likewise
	}
	f, other := b.greet(ctx, a)
	if other != nil {
		return err //nolint:wrapcheck // the first refusal stands
	}
	return f.take(ctx, a.msg, a.deliver)
}

// attempt removes an attempt; nil: it was none.
func (b *bridge) attempt(key string) *attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.tried[key]
	delete(b.tried, key)
	return a
}

// Receive implements wire.Conn.
func (b *bridge) Receive(ctx context.Context, deliver func([]byte), skipped func(error)) error {
	b.to.Store(&deliver)
	return b.inner.Receive(ctx, b.filter(ctx, deliver), skipped) //nolint:wrapcheck // it is the connection's own
}

func (b *bridge) deliver(raw []byte) {
	if to := b.to.Load(); to != nil {
		(*to)(raw)
	}
}

// incoming takes a message of the server.
func (b *bridge) incoming(ctx context.Context, raw []byte, deliver func([]byte)) {
	if b.passes.Load() {
		deliver(raw)
		return
	}
	msg, err := wire.Parse(raw, b.lane.limits(true))
	if err == nil && msg.ID != nil && (msg.Kind == wire.KindResponse || msg.Kind == wire.KindError) {
		if a := b.attempt(wire.IDKey(msg.ID)); a != nil {
			b.judge(ctx, a, &msg)
			return
		}
	}
	if t := b.tap.Load(); t != nil {
		t.put(raw)
		return
	}
	deliver(raw)
}

// judge looks at the answer to an attempt.
func (b *bridge) judge(ctx context.Context, a *attempt, msg *wire.Message) {
	if !refuses(a.msg, msg) {
		if msg.Kind == wire.KindResponse {
			b.lane.spoken.learn(a.speaks, served)
			b.passes.Store(true)
		}
		a.deliver(msg.Raw)
		return
	}
	if !b.lane.backend.mayCross(a.msg.Method) {
		a.deliver(msg.Raw)
		return
	}
	if err := b.spawn(ctx, func(ctx context.Context) { b.cross(ctx, a, msg.Raw) }); err != nil {
		a.deliver(msg.Raw)
	}
}

// cross answers a request by way of the other generation. refusal is what the server answered to it, nil
// if it was not asked.
func (b *bridge) cross(ctx context.Context, a *attempt, refusal []byte) {
	f, err := b.greet(ctx, a)
	switch {
	case err == nil:
		if err := f.take(ctx, a.msg, a.deliver); err != nil {
			a.deliver(wire.NewErrorAnswer(a.msg.ID, unanswered(err)))
		}
	case refusal != nil:
		a.deliver(refusal)
	default:
		// What was learned of the server may be out of date: the next connection finds out anew.
		b.lane.spoken.learn(a.speaks, 0)
		b.lane.log.WarnContext(ctx, "no handshake with the server", slog.String("client_generation", a.speaks.version()), slog.Any("error", err))
		a.deliver(wire.NewErrorAnswer(a.msg.ID, unanswered(err)))
	}
}

var errSameGeneration = errors.New("the server serves the client's own generation")

// greet makes the handshake of the other generation, once for each connection.
func (b *bridge) greet(ctx context.Context, a *attempt) (*far, error) {
	select {
	case b.hello <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.hello }()
	if f := b.far.Load(); f != nil {
		return f, nil
	}
	if b.passes.Load() {
		return nil, errSameGeneration
	}
	probe := []string{a.speaks.other().version()}
	if a.msg.Method != methodInitialize && a.msg.Method != methodDiscover && !b.lane.spoken.crosses(a.speaks) {
		// An error answer to any other request does not prove that its generation is refused.
		probe = append([]string{a.speaks.version()}, probe...)
	}
	f := newFar(b, a, probe)
	b.tap.Store(f.tap)
	life, end, err := b.alive(ctx)
	if err != nil {
		b.tap.Store(nil)
		return nil, err
	}
	b.work.Go(func() { // exits with the connection, or below when the handshake fails
		defer end()
		if err := f.client.Run(life); err != nil {
			b.lane.log.DebugContext(life, "translated connection ended", slog.Any("error", err))
		}
	})
	waiting, cancel := context.WithTimeout(life, helloWait)
	defer cancel()
	f.server, err = f.client.Initialize(waiting)
	if err == nil && generationOf(f.server.ProtocolVersion) == a.speaks {
		b.lane.spoken.learn(a.speaks, served)
		b.passes.Store(true)
		err = errSameGeneration
	}
	if err != nil {
		end()
		<-f.client.Done()
		b.tap.Store(nil)
		return nil, err //nolint:wrapcheck // it names both tries
	}
	b.lane.spoken.learn(a.speaks.other(), served)
	b.lane.spoken.learn(a.speaks, refused)
	b.far.Store(f)
	b.lane.log.InfoContext(ctx, "client and server speak different protocol generations: translating",
		slog.String("client_version", f.version), slog.String("server_version", f.server.ProtocolVersion))
	return f, nil
}

// alive makes a context that outlives a Send and ends with the bridge.
func (b *bridge) alive(ctx context.Context) (context.Context, context.CancelFunc, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil, nil, wire.ErrClosed
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	number := b.nextRun
	b.nextRun++
	b.running[number] = cancel
	b.work.Add(1)
	var once sync.Once
	return own, func() {
		once.Do(func() {
			cancel()
			b.mu.Lock()
			delete(b.running, number)
			b.mu.Unlock()
			b.work.Done()
		})
	}, nil
}

// spawn runs do beside the caller, until the bridge ends.
func (b *bridge) spawn(ctx context.Context, do func(context.Context)) error {
	own, done, err := b.alive(ctx)
	if err != nil {
		return err
	}
	go func() { // exits when do returns, at the latest soon after end
		defer done()
		do(own)
	}()
	return nil
}

// end stops what is under way and waits for it. The connection itself stays open.
func (b *bridge) end() {
	b.mu.Lock()
	b.ended = true
	for _, cancel := range b.running {
		cancel()
	}
	b.mu.Unlock()
	b.work.Wait()
}

// Close implements wire.Conn.
func (b *bridge) Close() error {
	b.end()
	return b.inner.Close() //nolint:wrapcheck // it is the connection's own
}

func unanswered(err error) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInternal, Message: "no answer from the server: " + causeOf(err)}
}

// cannotCross is the error for what one generation has and the other lacks.
func cannotCross(what, clientVersion, serverVersion string) *wire.RPCError {
	return &wire.RPCError{
		Code: wire.CodeMethodNotFound,
		Message: fmt.Sprintf("%s cannot cross between the client's protocol version %s and the server's %s",
			what, clientVersion, serverVersion),
	}
}
