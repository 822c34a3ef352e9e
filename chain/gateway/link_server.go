package gateway

import (
	"context"
	"errors"
	"log/slog"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// fromServer takes one message of the server. It may be called concurrently where the server sends
// on several streams.
func (k *link) fromServer(ctx context.Context, raw []byte) {
	msg, err := wire.Parse(raw, k.lane.limits(true))
	if err == nil {
		k.takeServer(ctx, msg)
		return
	}
	if list, isBatch := errors.AsType[*wire.BatchError](err); isBatch {
		for _, entry := range list.Entries {
			if msg, err := wire.Parse(entry, k.lane.limits(true)); err == nil {
				k.takeServer(ctx, msg)
			} else {
				k.oddFromServer(ctx, msg, err)
			}
		}
		return
	}
	k.oddFromServer(ctx, msg, err)
}

func (k *link) takeServer(ctx context.Context, msg wire.Message) {
	switch msg.Kind {
	case wire.KindRequest:
		k.asked(ctx, msg)
	case wire.KindNotification:
		if msg.Method == methodCancelled && !k.session.cancel(ctx, &msg, true) {
			return
		}
		at := k.toClient.take(false)
		k.spawn(k.downRoom, func() {
			defer at.release()
			at.wait()
			k.deliver(ctx, &msg)
		})
	default:
		k.answered(ctx, msg)
	}
}

// answered takes an answer of the server to its exchange, and on to the client.
func (k *link) answered(ctx context.Context, msg wire.Message) {
	var x *exchange
	if msg.ID != nil {
		x = k.session.find(msg.ID, false)
	}
	if x == nil {
		k.lane.strayFromServer(ctx, k.base, msg)
		return
	}
	at := k.toClient.take(msg.Kind == wire.KindResponse && x.chained("response"))
	k.spawn(k.downRoom, func() {
		defer at.release()
		a := x.settle(ctx, msg)
		at.wait()
		x.answer(a)
	})
}

// asked takes a request of the server to the client.
func (k *link) asked(ctx context.Context, msg wire.Message) {
	in := k.base
	in.msg = msg
	in.reverse = true
	in.reply = nil
	x, a := k.lane.begin(ctx, in)
	if x == nil {
		k.spawn(k.upRoom, func() { k.send(ctx, a.raw) })
		return
	}
	at := k.toClient.take(x.mayResolve() || x.chained("request"))
	k.spawn(k.downRoom, func() {
		defer at.release()
		forward, a, ok := x.admit(ctx)
		if ok {
			at.wait()
			if err := k.client.deliver(ctx, &forward); err == nil {
				return
			}
			a = x.fail(ctx, causeClientGone, "")
		}
		if a.raw != nil {
			k.send(ctx, a.raw)
		}
	})
}

func (k *link) deliver(ctx context.Context, msg *wire.Message) {
	if err := k.client.deliver(ctx, msg); err != nil {
		k.lane.log.DebugContext(ctx, "message not delivered", slog.Any("error", err))
	}
}

// oddFromServer takes what is no message: as the answer of an exchange if it names one.
func (k *link) oddFromServer(ctx context.Context, msg wire.Message, err error) {
	if parse, ok := errors.AsType[*wire.ParseError](err); ok && parse.ID != nil {
		if x := k.session.find(parse.ID, false); x != nil {
			x.answer(x.malformed(ctx, msg.Raw, parse.Reason))
			return
		}
	}
	k.lane.refuseServer(ctx, k.base, msg, err)
}

// skipped takes word of a message of the server that was too large to be read. When it can only have
// been the answer to one request, that request gets an error; else its caller has to cancel.
func (k *link) skipped(ctx context.Context, err error) {
	k.lane.log.WarnContext(ctx, "message of the server skipped", slog.Any("error", err))
	var only *exchange
	for _, x := range k.session.all() {
		switch {
		case x.reverse:
		case only != nil:
			k.lane.refuseServer(ctx, k.base, wire.Message{}, err)
			return
		default:
			only = x
		}
	}
	if only == nil {
		k.lane.refuseServer(ctx, k.base, wire.Message{}, err)
		return
	}
	only.answer(only.fail(ctx, causeTooLarge, err.Error()))
}

// end ends what is open when one side is gone, and waits for the work under way. Requests of the
// client get an error when it was the server that was lost; else why is the reason.
func (k *link) end(ctx context.Context, serverLost, why error) {
	ctx = context.WithoutCancel(ctx)
	for _, x := range k.session.all() {
		if serverLost != nil && !x.reverse {
			x.answer(x.fail(ctx, causeBackendLost, serverLost.Error()))
		}
		wasForwarded, a := x.interrupt(ctx, why)
		x.answer(a)
		if x.reverse && wasForwarded && serverLost == nil {
			// A shared server lives on and waits for the answer.
			k.send(ctx, wire.NewErrorAnswer(x.msg.ID, &wire.RPCError{Code: wire.CodeInternal, Message: "the session ended"}))
		}
	}
	k.work.Wait()
}
