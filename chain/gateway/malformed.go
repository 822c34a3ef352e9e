package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// refuseRaw records bytes that are no message, or not one for here, as an exchange of their own, and
// returns what their sender gets: an error with the id, as far as that could be found.
func (l *lane) refuseRaw(ctx context.Context, in arrival, err error) answer {
	v := verdict{outcome: schemas.OutcomeError, cause: causeMalformed, text: err.Error()}
	status := http.StatusBadRequest
	parse, isParse := errors.AsType[*wire.ParseError](err)
	switch {
	case isParse:
		v.rpc = parse.RPC()
		in.msg.ID = parse.ID
	case errors.Is(err, wire.ErrBatch):
		v.outcome, v.cause = schemas.OutcomeDenied, causeBatch
		v.rpc = &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: batches do not exist in this protocol version"}
	case errors.Is(err, wire.ErrTooLarge):
		v.outcome, v.cause, status = schemas.OutcomeDenied, causeTooLarge, http.StatusRequestEntityTooLarge
		v.rpc = &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: " + err.Error()}
		in.msg.Raw = nil
	default:
		v.rpc = &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request"}
	}
	// What was split before the error may be ungrammatical: only the raw bytes are kept.
	in.msg = wire.Message{Raw: in.msg.Raw, ID: in.msg.ID, Kind: wire.KindInvalid}
	in.scope = false
	a := l.newExchange(in).refuse(ctx, v)
	if a.status == 0 {
		a.status = status
	}
	return a
}

// refuseServer is [lane.refuseRaw] for what a server sent: nobody is answered.
func (l *lane) refuseServer(ctx context.Context, in arrival, msg wire.Message, err error) {
	in.msg, in.reverse, in.reply = msg, true, nil
	l.refuseRaw(ctx, in, err)
}

// refuseStopping records a request that came when the gateway was closed already.
func (l *lane) refuseStopping(ctx context.Context, in arrival) answer {
	cause, rpc, status := refusalOf(ErrStopping)
	in.scope = false
	a := l.newExchange(in).refuse(context.WithoutCancel(ctx), verdict{outcome: schemas.OutcomeDenied, cause: cause, rpc: rpc})
	if a.status == 0 {
		a.status, a.retry = status, true
	}
	return a
}

func malformedAnswer(reason string) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInternal, Message: "malformed answer of the server: " + reason}
}
