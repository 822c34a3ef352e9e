package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// mux seats many sessions at one stdio server. Ids and progress tokens of requests are replaced by
// numbers of its own and put back in what the server answers; initialize reaches the server once.
//
// Failure behaviour: when the server ends, every seat ends with it; the next session starts a new
// one. A request of the server that belongs to no single session is refused.
type mux struct {
	lane *lane
	life *life

	mu   sync.Mutex // guards what follows and every seat's state; never held while sending
	up   *muxServer // nil: none runs
	ends sync.WaitGroup
}

// muxServer is one run of the shared server.
type muxServer struct {
	conn    wire.Conn
	stop    func(context.Context)
	seats   map[*seat]struct{}
	calls   map[string]*muxCall // by our id
	asked   map[string]*seat    // by the server's id: who was asked
	subs    map[string]map[*seat]struct{}
	next    uint64
	hello   helloState
	waiting []*muxCall  // initialize of seats that came before the first answer
	result  jsonx.Value // of initialize
	ready   bool        // notifications/initialized went out
}

type helloState uint8

const (
	helloNone helloState = iota
	helloSent
	helloDone
)

// muxCall is an open request of a seat.
type muxCall struct {
	seat   *seat
	id     jsonx.Value // the client's
	token  jsonx.Value // the client's progress token; nil: none
	method string
}

func newMux(l *lane, lf *life) *mux { return &mux{lane: l, life: lf} }

// attach gives a session a seat, and starts the server if none runs. Only lasting seats get what the
// server tells everybody.
func (m *mux) attach(ctx context.Context, lasting bool) (*seat, func(context.Context), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.up == nil {
		conn, stop, err := m.lane.dial(nil)
		if err != nil {
			return nil, nil, err
		}
		up := &muxServer{
			conn: conn, stop: stop, seats: make(map[*seat]struct{}), calls: make(map[string]*muxCall),
			asked: make(map[string]*seat), subs: make(map[string]map[*seat]struct{}),
		}
		m.up = up
		ctx := context.WithoutCancel(ctx)
		m.ends.Go(func() { m.run(ctx, up) }) // exits when the server's stream ends, at the latest by close
	}
	s := &seat{mux: m, server: m.up, lasting: lasting, ended: make(chan struct{}), own: make(map[string]string), listening: make(chan struct{})}
	m.up.seats[s] = struct{}{}
	return s, func(context.Context) { _ = s.Close() }, nil
}

func (m *mux) run(ctx context.Context, up *muxServer) {
	err := up.conn.Receive(ctx, func(raw []byte) { m.fromServer(ctx, up, raw) }, func(err error) {
		m.skipped(ctx, up, err)
	})
	m.mu.Lock()
	if m.up == up {
		m.up = nil
	}
	for s := range up.seats {
		s.leave(errors.Join(errServerEnded, err))
	}
	m.mu.Unlock()
	up.stop(ctx)
}

// close stops the server.
func (m *mux) close(ctx context.Context) {
	m.mu.Lock()
	up := m.up
	m.mu.Unlock()
	if up != nil {
		up.stop(ctx)
	}
	m.ends.Wait()
}

// fromServer finds the seats for a message of the server.
func (m *mux) fromServer(ctx context.Context, up *muxServer, raw []byte) {
	msg, err := wire.Parse(raw, m.lane.limits(true))
	if list, isBatch := errors.AsType[*wire.BatchError](err); isBatch {
		for _, entry := range list.Entries {
			m.fromServer(ctx, up, entry)
		}
		return
	}
	if err != nil {
		m.odd(ctx, up, msg, err)
		return
	}
	switch msg.Kind {
	case wire.KindRequest:
		m.asks(ctx, up, msg)
	case wire.KindNotification:
		m.tells(ctx, up, msg)
	default:
		m.answers(ctx, up, msg)
	}
}

func (m *mux) answers(ctx context.Context, up *muxServer, msg wire.Message) {
	if msg.ID == nil {
		m.lane.strayFromServer(ctx, m.arrival(), msg)
		return
	}
	m.mu.Lock()
	call := up.calls[wire.IDKey(msg.ID)]
	var also []*muxCall
	if call != nil {
		up.forget(wire.IDKey(msg.ID), call)
		if call.method == methodInitialize {
			also = up.greeted(msg)
		}
	}
	m.mu.Unlock()
	if call == nil {
		m.lane.strayFromServer(ctx, m.arrival(), msg)
		return
	}
	call.seat.deliver(msg.WithID(call.id))
	for _, c := range also {
		c.seat.deliver(msg.WithID(c.id))
	}
}

// greeted takes the answer to initialize, and returns who waits for the same.
func (up *muxServer) greeted(msg wire.Message) []*muxCall {
	also := up.waiting
	up.waiting = nil
	up.hello = helloNone
	if msg.Kind == wire.KindResponse {
		up.hello, up.result = helloDone, msg.Result
	}
	return also
}

func (up *muxServer) forget(key string, call *muxCall) {
	delete(up.calls, key)
	delete(call.seat.own, wire.IDKey(call.id))
}

// tells hands a notification to every entitled seat.
func (m *mux) tells(_ context.Context, up *muxServer, msg wire.Message) {
	m.mu.Lock()
	var to []*seat
	raw := msg.Raw
	switch meta := wire.MetaOf(msg.Params); {
	case meta.SubscriptionID != nil:
		if call := up.calls[wire.IDKey(meta.SubscriptionID)]; call != nil {
			to, raw = append(to, call.seat), withSubscription(msg, call.id)
		}
	case msg.Method == methodProgress:
		token, _ := wire.Member(msg.Params, "progressToken")
		if call := up.calls[wire.IDKey(token)]; call != nil && call.token != nil {
			changed := msg.WithParams(wire.WithMember(msg.Params, "progressToken", call.token))
			to, raw = append(to, call.seat), changed.Raw
		}
	case msg.Method == methodCancelled:
		id, _ := wire.Member(msg.Params, "requestId")
		if s := up.asked[wire.IDKey(id)]; s != nil {
			to = append(to, s)
		}
	case msg.Method == methodUpdated:
		uri, _ := wire.MemberString(msg.Params, "uri")
		for s := range up.subs[uri] {
			to = append(to, s)
		}
	default:
		to = up.everybody(msg.Method)
	}
	m.mu.Unlock()
	for _, s := range to {
		s.deliver(raw)
	}
}

// everybody are the lasting seats. A log message goes to a seat for one request, too, if it can only
// be about that.
func (up *muxServer) everybody(method string) []*seat {
	var to []*seat
	for s := range up.seats {
		if s.lasting {
			to = append(to, s)
		}
	}
	if method == methodLog && len(to) == 0 {
		if s := up.subject(); s != nil {
			to = append(to, s)
		}
	}
	return to
}

func withSubscription(msg wire.Message, id jsonx.Value) []byte {
	meta, _ := wire.Member(msg.Params, "_meta")
	meta = wire.WithMember(meta, wire.MetaSubscriptionID, id)
	out := msg.WithParams(wire.WithMember(msg.Params, "_meta", meta))
	return out.Raw
}

// asks hands a request of the server to the one seat that it can be about.
func (m *mux) asks(ctx context.Context, up *muxServer, msg wire.Message) {
	m.mu.Lock()
	s := up.subject()
	if s != nil {
		up.asked[wire.IDKey(msg.ID)] = s
	}
	m.mu.Unlock()
	if s != nil {
		s.deliver(msg.Raw)
		return
	}
	in := m.arrival()
	in.msg, in.reverse = msg, true
	a := m.lane.newExchange(in).refuse(ctx, verdict{
		outcome: schemas.OutcomeDenied, cause: causeUnroutable,
		rpc: &wire.RPCError{Code: wire.CodeInternal, Message: "the request belongs to no single session of this shared server"},
	})
	if err := up.conn.Send(ctx, a.raw, nil); err != nil {
		m.lane.log.WarnContext(ctx, "refusal not delivered to the server", slog.Any("error", err))
	}
}

// subject is the only seat with an open call, or the only seat.
func (up *muxServer) subject() *seat {
	var only *seat
	for _, c := range up.calls {
		if only != nil && c.seat != only {
			return nil
		}
		only = c.seat
	}
	if only != nil {
		return only
	}
	for s := range up.seats {
		if only != nil {
			return nil
		}
		only = s
	}
	return only
}

// odd takes what is no message. If it names a call, its seat gets it under the id it knows.
func (m *mux) odd(ctx context.Context, up *muxServer, msg wire.Message, err error) {
	if parse, ok := errors.AsType[*wire.ParseError](err); ok && parse.ID != nil {
		m.mu.Lock()
		call := up.calls[wire.IDKey(parse.ID)]
		if call != nil {
			up.forget(wire.IDKey(parse.ID), call)
		}
		m.mu.Unlock()
		if call != nil {
			call.seat.deliver(wire.NewErrorAnswer(call.id, malformedAnswer(parse.Reason)))
			return
		}
	}
	m.lane.refuseServer(ctx, m.arrival(), msg, err)
}

// arrival is what is known of a message that belongs to no seat.
func (m *mux) arrival() arrival {
	return arrival{session: newSession("", &m.lane.opts.Key, 1), transport: "http"}
}

// skipped takes word of a message that was too large to be read; see link.skipped.
func (m *mux) skipped(ctx context.Context, up *muxServer, err error) {
	m.lane.log.WarnContext(ctx, "message of the server skipped", slog.Any("error", err))
	m.mu.Lock()
	var only *muxCall
	if len(up.calls) == 1 {
		for key, call := range up.calls {
			only = call
			up.forget(key, call)
		}
	}
	m.mu.Unlock()
	if only == nil {
		m.lane.refuseServer(ctx, m.arrival(), wire.Message{}, err)
		return
	}
	only.seat.deliver(wire.NewErrorAnswer(only.id, malformedAnswer("too large")))
}

// number makes an id of our own.
func (up *muxServer) number() jsonx.Value {
	up.next++
	return strconv.AppendUint(nil, up.next, 10)
}
