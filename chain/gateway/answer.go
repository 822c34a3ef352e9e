package gateway

import (
	"errors"
	"net/http"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// answer is what the caller of an exchange gets. With a nil raw it gets nothing: the exchange was
// cancelled, or was not open any more.
type answer struct {
	raw     []byte // a JSON-RPC response or error answer
	code    int    // its error code; 0: a result
	status  int    // HTTP status when the gateway itself refuses; 0: by code and protocol version
	changed bool   // raw is not what the other side sent
	retry   bool   // the same request may succeed later
	mine    bool   // this call ended the exchange, and so it is the one that answers
}

func errorAnswer(id jsonx.Value, e *wire.RPCError) answer {
	return answer{raw: wire.NewErrorAnswer(id, e), code: e.Code, changed: true}
}

func denialError(d *chain.Denial) *wire.RPCError {
	return &wire.RPCError{Code: d.Code, Message: d.Message, Data: d.Data}
}

// unrecorded is the answer when the recorder failed: nothing was forwarded, or the result is kept
// back.
func unrecorded(id jsonx.Value, cause string) answer {
	a := errorAnswer(id, &wire.RPCError{
		Code: wire.CodeInternal, Message: "not recorded: the audit trail does not accept events",
		Data: jsonx.Value(`{"cause":"` + cause + `"}`),
	})
	a.status, a.retry = http.StatusServiceUnavailable, true
	return a
}

// refusalOf is the error and the HTTP status that go with a cause for which the gateway itself
// refuses a request.
func refusalOf(err error) (cause string, rpc *wire.RPCError, status int) {
	switch {
	case errors.Is(err, errReusedID):
		return causeReusedID, &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: a request with this id is open"}, http.StatusBadRequest
	case errors.Is(err, ErrStopping):
		return causeStopping, &wire.RPCError{Code: wire.CodeInternal, Message: "gateway is stopping"}, http.StatusServiceUnavailable
	}
	return causeOverloaded, &wire.RPCError{Code: wire.CodeInternal, Message: "gateway is overloaded: too many open requests"}, http.StatusServiceUnavailable
}

// httpStatus is the status of an answer that is not part of a stream (protocol 2026-07-28 ties it
// to the error code; before, error answers have 200).
func (a *answer) httpStatus(version string) int {
	if a.status != 0 {
		return a.status
	}
	return wire.ErrorStatus(version, a.code)
}
