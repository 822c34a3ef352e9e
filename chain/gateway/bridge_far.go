package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// far is a server of the other generation, as a bridge speaks to it.
type far struct {
	bridge  *bridge
	tap     *tap
	client  *wire.Client
	server  *wire.Server // set by the handshake
	speaks  generation   // of the client
	version string       // of the client

	mu       sync.Mutex // guards what follows
	calls    map[string]*farCall
	asked    map[string]chan wire.Message // requests that the bridge made of the client
	next     uint64
	logLevel jsonx.Value // set by logging/setLevel; nil: never
}

// farCall is a request of the client that is under way.
type farCall struct {
	cancel context.CancelFunc
	over   chan struct{} // closed when nothing will be sent for it any more
}

func newFar(b *bridge, a *attempt, probe []string) *far {
	f := &far{
		bridge: b, tap: newTap(b.inner), speaks: a.speaks, version: a.speaks.version(),
		calls: make(map[string]*farCall), asked: make(map[string]chan wire.Message),
	}
	facts := factsOf(a.msg)
	if v := wire.SealedVersion(facts.version); a.speaks == legacyGeneration && v != "" && v != "other" {
		f.version = v
	}
	opts := &wire.ClientOptions{
		Name: facts.client.name, Version: facts.client.version, Probe: probe, Limits: b.lane.limits(true),
		MaxInFlight: b.lane.opts.MaxPending, Notification: f.notified, Logger: b.lane.log,
		Refusal: cannotCross("a request of the server", f.version, a.speaks.other().version()),
	}
	// What a legacy server asks its client has no way to a modern one: it is not invited to ask.
	if a.speaks == legacyGeneration {
		opts.Capabilities, _ = wire.Member(a.msg.Params, "capabilities")
	}
	f.client = wire.NewClient(f.tap, opts)
	return f
}

// take takes one message of the client. It returns before a request is answered.
func (f *far) take(ctx context.Context, msg *wire.Message, deliver func([]byte)) error {
	switch msg.Kind {
	case wire.KindRequest:
		return f.begin(ctx, msg, deliver)
	case wire.KindNotification:
		return f.told(ctx, msg)
	case wire.KindResponse, wire.KindError:
		f.mu.Lock()
		waits := f.asked[wire.IDKey(msg.ID)]
		delete(f.asked, wire.IDKey(msg.ID))
		f.mu.Unlock()
		if waits != nil {
			waits <- *msg // has room
		}
	case wire.KindInvalid:
	}
	return nil
}

func (f *far) begin(ctx context.Context, msg *wire.Message, deliver func([]byte)) error {
	own, done, err := f.bridge.alive(ctx)
	if err != nil {
		return err
	}
	key := wire.IDKey(msg.ID)
	call := &farCall{cancel: done, over: make(chan struct{})}
	f.mu.Lock()
	f.calls[key] = call
	f.mu.Unlock()
	go func() { // exits with the answer, by a cancel of the client, or with the bridge
		defer done()
		result, err := f.answer(own, msg)
		close(call.over)
		f.mu.Lock()
		waits := f.calls[key] == call
		if waits {
			delete(f.calls, key)
		}
		f.mu.Unlock()
		rpc, isAnswer := errors.AsType[*wire.RPCError](err)
		switch {
		case !waits || (own.Err() != nil && err != nil):
			// Cancelled, or the connection has ended: whoever did that answers.
		case err == nil:
			deliver(wire.NewResponse(msg.ID, result))
		case isAnswer:
			deliver(wire.NewErrorAnswer(msg.ID, rpc))
		case !errors.Is(err, wire.ErrDisconnected):
			f.bridge.lane.log.WarnContext(own, "call not answered", slog.Any("error", err))
			deliver(wire.NewErrorAnswer(msg.ID, unanswered(err)))
		}
	}()
	return nil
}

func (f *far) answer(ctx context.Context, msg *wire.Message) (jsonx.Value, error) {
	if f.speaks == legacyGeneration {
		return f.answerLegacy(ctx, msg)
	}
	return f.answerModern(ctx, msg)
}

// told takes a notification of the client.
func (f *far) told(ctx context.Context, msg *wire.Message) error {
	switch msg.Method {
	case methodCancelled:
		id, _ := wire.Member(msg.Params, "requestId")
		f.cancel(ctx, wire.IDKey(id))
		return nil
	case methodInitialized, methodRootsChanged:
		return nil // the other generation has no word for it
	}
	if f.speaks == modernGeneration {
		return f.client.Notify(ctx, msg.Method, withoutEnvelope(msg.Params)) //nolint:wrapcheck // it names the method
	}
	return f.client.Notify(ctx, msg.Method, msg.Params) //nolint:wrapcheck // likewise
}

// cancelWait bounds how long the client's cancel is waited for to be written.
const cancelWait = 2 * time.Second

// cancel ends a call and returns when the server was told: its connection may end next.
func (f *far) cancel(ctx context.Context, key string) {
	f.mu.Lock()
	call := f.calls[key]
	delete(f.calls, key)
	f.mu.Unlock()
	if call == nil {
		return
	}
	call.cancel()
	ctx, end := context.WithTimeout(ctx, cancelWait)
	defer end()
	select {
	case <-call.over:
	case <-ctx.Done():
		return
	}
	if err := f.client.Flush(ctx); err != nil {
		f.bridge.lane.log.DebugContext(ctx, "the server was not told of a cancel", slog.Any("error", err))
	}
}

// notified takes a notification of the server. Toward a modern client only what belongs to a request
// passes: it gets the rest by subscriptions/listen, which an older server does not have.
func (f *far) notified(method string, params jsonx.Value) {
	if f.speaks == modernGeneration && method != methodProgress {
		f.bridge.lane.log.Debug("notification of the server cannot cross", slog.String("client_version", f.version))
		return
	}
	f.bridge.deliver(wire.NewNotification(method, params))
}

// cross is the error for what the server's generation lacks.
func (f *far) cross(what string) error { return cannotCross(what, f.version, f.server.ProtocolVersion) }

// tap is the part of a connection that a wire.Client reads: what put gives it.
type tap struct {
	inner wire.Conn
	in    chan []byte
	ended chan struct{}
	once  sync.Once
}

func newTap(inner wire.Conn) *tap {
	return &tap{inner: inner, in: make(chan []byte), ended: make(chan struct{})}
}

// put waits until the message is taken, or the tap closed.
func (t *tap) put(raw []byte) {
	select {
	case t.in <- raw:
	case <-t.ended:
	}
}

// Send implements wire.Conn.
func (t *tap) Send(ctx context.Context, raw []byte, deliver func([]byte)) error {
	return t.inner.Send(ctx, raw, deliver) //nolint:wrapcheck // it is the connection's own
}

// Receive implements wire.Conn.
func (t *tap) Receive(_ context.Context, deliver func([]byte), _ func(error)) error {
	for {
		select {
		case raw := <-t.in:
			deliver(raw)
		case <-t.ended:
			return nil
		}
	}
}

// Close implements wire.Conn: the connection itself stays open.
func (t *tap) Close() error {
	t.once.Do(func() { close(t.ended) })
	return nil
}
