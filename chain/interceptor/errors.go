package interceptor

import (
	"context"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// maxReason bounds the text of a handler's error on the wire, in bytes.
const maxReason = 512

var (
	errPanic = errors.New("panic")
	errBusy  = errors.New("busy")
)

func badParams(fault string) *wire.RPCError {
	data := append(appendQuoted([]byte(`{"reason":`), fault), '}')
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: "Invalid params: " + fault, Data: data}
}

// unknownInterceptor names the interceptor under both members that implementations use.
func unknownInterceptor(name string) *wire.RPCError {
	data := appendQuoted([]byte(`{"interceptor":`), name)
	data = append(appendQuoted(append(data, `,"name":`...), name), '}')
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: "Unknown interceptor", Data: data}
}

func notHooked(d *Descriptor, call *Call) *wire.RPCError {
	data := appendQuoted([]byte(`{"interceptor":`), d.Name)
	data = appendQuoted(append(data, `,"name":`...), d.Name)
	data = appendQuoted(append(data, `,"event":`...), call.Event)
	data = appendQuoted(append(data, `,"phase":`...), string(call.Phase))
	if hooks, err := jsonx.Marshal(d.Hooks); err == nil {
		data = append(append(data, `,"advertisedHooks":`...), hooks...)
	}
	return &wire.RPCError{
		Code: wire.CodeInvalidParams, Message: "Interceptor does not hook this event and phase", Data: append(data, '}'),
	}
}

func handlerFailed(d *Descriptor, phase schemas.Phase, err error) *wire.RPCError {
	data := appendQuoted([]byte(`{"interceptor":`), d.Name)
	data = appendQuoted(append(data, `,"phase":`...), string(phase))
	data = append(appendQuoted(append(data, `,"reason":`...), clip(err.Error())), '}')
	return &wire.RPCError{Code: wire.CodeInternal, Message: "Interceptor execution failed", Data: data}
}

// clip bounds a text for the wire.
func clip(text string) string {
	if len(text) <= maxReason {
		return text
	}
	text = text[:maxReason]
	for !utf8.ValidString(text) && len(text) > maxReason-utf8.UTFMax {
		text = text[:len(text)-1]
	}
	return text
}

func timedOut(d *Descriptor, call *Call, limitMS int64) *wire.RPCError {
	data := appendQuoted([]byte(`{"interceptor":`), d.Name)
	data = strconv.AppendInt(append(data, `,"timeoutMs":`...), limitMS, 10)
	data = appendQuoted(append(data, `,"phase":`...), string(call.Phase))
	data = append(data, `,"reason":"timeout"}`...)
	return &wire.RPCError{Code: wire.CodeTimeout, Message: "Interceptor execution timeout", Data: data}
}

// rpcError turns what Invoke and Handle return into a JSON-RPC error.
func rpcError(err error) *wire.RPCError {
	if e, ok := errors.AsType[*wire.RPCError](err); ok {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &wire.RPCError{Code: wire.CodeTimeout, Message: "Interceptor execution timeout"}
	}
	return &wire.RPCError{Code: wire.CodeInternal, Message: "Internal error"}
}
