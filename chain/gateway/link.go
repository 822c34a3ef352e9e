package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// clientPort is the client's end of a link.
type clientPort interface {
	// deliver sends a notification or a request of the server. Answers go by arrival.reply.
	deliver(ctx context.Context, msg *wire.Message) error
}

// maxInWork bounds the messages of one direction of a link that are read and not yet dealt with. A
// peer that sends more is not read from until there is room.
const maxInWork = 1_024

// link carries one session between a client and a server that are not both HTTP. Reading never waits
// for a chain: each message that needs more than a write has a goroutine of its own.
type link struct {
	lane    *lane
	session *session
	base    arrival // what is known of who began the session
	client  clientPort
	server  wire.Conn

	toServer, toClient sequencer
	upRoom, downRoom   chan struct{}
	work               tally
}

func newLink(l *lane, s *session, base arrival, client clientPort, server wire.Conn) *link {
	base.session = s
	base.scope = true
	if p, ok := server.(interface{ peerVersion() string }); ok {
		s.peer = p.peerVersion
	}
	return &link{
		lane: l, session: s, base: base, client: client, server: server,
		upRoom: make(chan struct{}, maxInWork), downRoom: make(chan struct{}, maxInWork),
	}
}

// spawn runs do in a goroutine that takes one of the direction's places in work.
func (k *link) spawn(room chan struct{}, do func()) {
	room <- struct{}{}
	k.work.Go(func() { // exits when the phase has run and the message is written; close waits for it
		defer func() { <-room }()
		do()
	})
}

// fromClient takes one message of the client, as from tells of its sender; from.reply takes the answer if it is a request.
// Messages keep their order if one goroutine at a time calls it.
func (k *link) fromClient(ctx context.Context, raw []byte, from arrival) {
	msg, err := wire.Parse(raw, k.lane.limits(false))
	if err != nil {
		k.oddFromClient(ctx, msg, err, from)
		return
	}
	k.take(ctx, msg, from)
}

// from is what is known of the sender of one HTTP request in the session.
func (k *link) from(v *visit, reply func([]byte)) arrival {
	in := v.arrival(wire.Message{})
	in.session, in.scope, in.reply = k.session, true, reply
	return in
}

func (k *link) take(ctx context.Context, msg wire.Message, from arrival) {
	from.msg = msg
	switch msg.Kind {
	case wire.KindRequest:
		k.request(ctx, from)
	case wire.KindNotification:
		k.notifyServer(ctx, msg)
	default:
		var x *exchange
		if msg.ID != nil {
			x = k.session.find(msg.ID, true)
		}
		if x == nil {
			k.lane.answerStray(ctx, from)
			return
		}
		k.spawn(k.upRoom, func() {
			if a := x.settle(ctx, msg); a.raw != nil {
				k.send(ctx, a.raw)
			}
		})
	}
}

// request takes a request of the client through its exchange, up to the write.
func (k *link) request(ctx context.Context, in arrival) {
	in.headless = true
	x, a := k.lane.begin(ctx, in)
	if x == nil {
		in.answer(a)
		return
	}
	at := k.toServer.take(x.mayResolve() || x.chained("request"))
	k.spawn(k.upRoom, func() {
		defer at.release()
		forward, a, ok := x.admit(ctx)
		if !ok {
			x.answer(a)
			return
		}
		at.wait()
		// Over HTTP the session id comes with the answer to initialize: the next message needs it.
		if synchronous(k.server) && in.msg.Method != methodInitialize {
			at.release()
		}
		sendCtx, done := x.arm(ctx)
		defer done()
		err := k.server.Send(sendCtx, forward.Raw, func(raw []byte) { k.fromServer(ctx, raw) })
		if err != nil {
			a := x.fail(ctx, causeOf(err), err.Error())
			last := k.toClient.take(false) // behind what its stream brought before it broke
			defer last.release()
			last.wait()
			x.answer(a)
		}
	})
}

// synchronous tells that Send of a connection returns with the answer, not with the write.
func synchronous(c wire.Conn) bool {
	s, ok := c.(interface{ Synchronous() bool })
	return ok && s.Synchronous()
}

func causeOf(err error) string {
	_, status := errors.AsType[*wire.StatusError](err)
	switch {
	case status || errors.Is(err, wire.ErrSessionLost):
		return causeHTTPStatus
	case errors.Is(err, wire.ErrNoAnswer):
		return causeNoAnswer
	case errors.Is(err, wire.ErrTooLarge):
		return causeTooLarge
	}
	return causeBackendLost
}

func (k *link) notifyServer(ctx context.Context, msg wire.Message) {
	if msg.Method == methodCancelled {
		// Not in order: it is there to be quick. Its request was written, else it does not go on.
		if !k.session.cancel(ctx, &msg, false) {
			return
		}
	}
	at := k.toServer.take(false)
	k.spawn(k.upRoom, func() {
		defer at.release()
		at.wait()
		k.send(ctx, msg.Raw)
	})
}

// send writes to the server what has no exchange to fail.
func (k *link) send(ctx context.Context, raw []byte) {
	if err := k.server.Send(ctx, raw, func(raw []byte) { k.fromServer(ctx, raw) }); err != nil {
		k.lane.log.WarnContext(ctx, "message not forwarded", slog.Any("error", err))
	}
}

// oddFromClient answers what is no message, and takes a batch apart where there are batches.
func (k *link) oddFromClient(ctx context.Context, msg wire.Message, err error, in arrival) {
	version, _ := k.session.negotiated()
	if list, isBatch := errors.AsType[*wire.BatchError](err); isBatch && batches(version) && len(list.Entries) <= maxBatch {
		k.batch(ctx, list.Entries, in)
		return
	}
	in.msg = msg
	in.answer(k.lane.refuseRaw(ctx, in, err))
}

// batch takes each entry by itself and answers with a batch when the last answer is there.
func (k *link) batch(ctx context.Context, entries []jsonx.Value, from arrival) {
	c := &collector{reply: from.reply}
	from.reply = c.add
	parsed := make([]wire.Message, len(entries))
	errs := make([]error, len(entries))
	for i, entry := range entries {
		parsed[i], errs[i] = wire.Parse(entry, k.lane.limits(false))
		if errs[i] != nil || parsed[i].Kind == wire.KindRequest {
			c.due++
		}
	}
	for i := range entries {
		if errs[i] == nil {
			k.take(ctx, parsed[i], from)
			continue
		}
		in := from
		in.msg = parsed[i]
		in.answer(k.lane.refuseRaw(ctx, in, errs[i]))
	}
}

// collector gathers the answers to a batch.
type collector struct {
	reply func([]byte)

	mu  sync.Mutex // guards what follows
	due int
	got [][]byte
}

// add takes an answer; nil counts too, for a request that was cancelled.
func (c *collector) add(raw []byte) {
	c.mu.Lock()
	if raw != nil {
		c.got = append(c.got, raw)
	}
	c.due--
	last := c.due == 0
	c.mu.Unlock()
	if !last {
		return
	}
	if len(c.got) == 0 {
		c.reply(nil)
		return
	}
	c.reply(joinBatch(c.got))
}

// answer hands the answer of the gateway or the server to the client. Each request is answered once;
// nil tells that no answer will come.
func (in *arrival) answer(a answer) {
	if in.reply != nil {
		in.reply(a.raw)
	}
}
