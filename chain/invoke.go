package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Caller makes requests of an interceptor server. It is satisfied by *wire.Client and by [Local]. Call is concurrent,
// returns soon after ctx is done, and owns nothing of params afterwards.
type Caller interface {
	// Call returns the result; an error answer is a *wire.RPCError.
	Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error)
}

// Interceptor is one entry of a plan, ready to be invoked: in the path by the plan, or later by deferred work. All
// methods are concurrent.
type Interceptor struct {
	entry   schemas.PlanEntry
	caller  Caller
	timeout time.Duration
	enforce *Enforce // nil: for everybody
	head    []byte   // first part of the invoke params
	config  jsonx.Value
	breaker *breaker            // nil: it has none
	direct  *interceptor.Server // takes invocations without their encoding; nil unless it is in this process
}

// NewInterceptor makes an interceptor from its entry in a plan; config is sent with each call, nil for none, and MUST
// be grammatical.
func NewInterceptor(entry schemas.PlanEntry, config jsonx.Value, caller Caller) *Interceptor {
	i := &Interceptor{entry: entry, caller: caller, timeout: time.Duration(entry.TimeoutMS) * time.Millisecond}
	i.makeHead(config)
	if h, ok := caller.(*host); ok && !entry.Envelope { // an envelope is a matter of the encoding
		i.direct = h.inProcess()
	}
	return i
}

// WithConfig returns the interceptor with another configuration, which MUST be grammatical.
func (i *Interceptor) WithConfig(config jsonx.Value) *Interceptor {
	return NewInterceptor(i.entry, config, i.caller)
}

// Entry returns the entry of the plan. The caller MUST NOT change what its slices hold.
func (i *Interceptor) Entry() schemas.PlanEntry { return i.entry }

// Deferred reports whether it takes no part in the request path: a sink, or an interceptor in audit mode.
func (i *Interceptor) Deferred() bool { return !i.inPath() }

func (i *Interceptor) inPath() bool {
	return i.entry.Type != schemas.TypeSink && i.entry.Mode != schemas.ModeAudit
}

func (i *Interceptor) priority(phase schemas.Phase) int32 {
	if phase == schemas.PhaseResponse {
		return i.entry.PriorityRs
	}
	return i.entry.PriorityRq
}

// Invoke runs the interceptor once on a message, within its own timeout; meta is an object that travels as _meta, nil
// for none. It is meant for deferred work: nothing of the answer is applied. It does not fail: the answer's state says
// what happened.
func (i *Interceptor) Invoke(ctx context.Context, in Input, meta jsonx.Value) Answer {
	m := newMessage(&in)
	ctx, cancel := context.WithTimeout(ctx, i.timeoutOrDefault())
	defer cancel()
	return i.invoke(ctx, &m, meta)
}

func (i *Interceptor) timeoutOrDefault() time.Duration {
	if i.timeout <= 0 {
		return DefaultTimeout
	}
	return i.timeout
}

// invoke runs the interceptor once. The body of m for this interceptor's envelope MUST have been made if others run at
// the same time.
func (i *Interceptor) invoke(ctx context.Context, m *message, meta jsonx.Value) Answer {
	guard := i.breaker
	if meta != nil || i.Deferred() {
		guard = nil // deferred work waits and tries again
	}
	if guard != nil {
		if err := guard.allow(); err != nil {
			return Answer{State: schemas.StateFailed, Error: err.Error()}
		}
	}
	start := time.Now()
	raw, err := i.call(ctx, m, meta)
	var a Answer
	if err != nil {
		a = failure(ctx, err)
	} else {
		a = i.read(m, raw)
	}
	a.Duration = time.Since(start)
	if guard != nil {
		guard.report(ctx, signOf(ctx, &a, err, i.timeoutOrDefault()))
	}
	return a
}

// call turns a panic of an interceptor in this process into an error.
func (i *Interceptor) call(ctx context.Context, m *message, meta jsonx.Value) (raw jsonx.Value, err error) {
	defer func() {
		if p := recover(); p != nil { // the value may hold payload: only its type is told
			raw, err = nil, fmt.Errorf("%w with a %T", ErrPanic, p)
		}
	}()
	if i.direct != nil {
		return i.direct.InvokeCall(ctx, i.newCall(m, meta))
	}
	return i.caller.Call(ctx, interceptor.MethodInvoke, i.params(m.body(i.entry.Envelope), meta))
}

// failure classifies an invocation without a result.
func failure(ctx context.Context, err error) Answer {
	a := Answer{State: schemas.StateFailed, Error: err.Error()}
	if rpc, ok := errors.AsType[*wire.RPCError](err); ok {
		a.ErrorCode = rpc.Code
		a.Error = withReason(a.Error, rpc)
		if isTimeout(rpc) {
			a.State = schemas.StateTimeout
		}
		return a
	}
	if _, ok := errors.AsType[*wire.ParseError](err); ok {
		a.State = schemas.StateMalformed
		return a
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		a.State = schemas.StateTimeout
	}
	return a
}

// maxReason bounds what of a reason is kept, in bytes.
const maxReason = 1 << 10

// withReason adds why a handler failed (SEP-2624: data {interceptor, reason}) to the text of its error, which is
// the same for all of them.
func withReason(text string, rpc *wire.RPCError) string {
	raw, _ := jsonx.Lookup(rpc.Data, "reason")
	reason, _ := jsonx.StringOf(raw)
	if reason == "" || strings.Contains(text, reason) {
		return text
	}
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return text + ": " + reason
}

// isTimeout knows the spellings of a timeout: code -32000 with the data of SEP-2624 or without data, and code -32603
// with the reason "timeout". Other servers use -32000 for anything.
func isTimeout(rpc *wire.RPCError) bool {
	if rpc.Code != wire.CodeTimeout && rpc.Code != wire.CodeInternal {
		return false
	}
	if isNull(rpc.Data) {
		return rpc.Code == wire.CodeTimeout
	}
	reason, _ := jsonx.Lookup(rpc.Data, "reason")
	if text, _ := jsonx.StringOf(reason); text == "timeout" {
		return true
	}
	_, limited := jsonx.Lookup(rpc.Data, "timeoutMs")
	return limited && rpc.Code == wire.CodeTimeout
}
