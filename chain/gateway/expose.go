package gateway

import (
	"context"
	"errors"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const amendExtension = "chaintrail/expose-interceptors"

// Directory offers interceptors to the gateway's clients, as one server of SEP-2624; [chain.Directory] is one. It is called
// by many requests at once.
type Directory interface {
	// Events lists the events of all hooks, each once.
	Events() []string
	// List answers interceptors/list, Invoke interceptor/invoke. The error is a *wire.RPCError, or the cause of ctx.
	List(ctx context.Context, params jsonx.Value) (jsonx.Value, error)
	Invoke(ctx context.Context, params jsonx.Value) (jsonx.Value, error)
}

// exposed answers a request for the interceptors that the gateway offers; ok is false for every other request. It is
// recorded as any exchange, goes through no plan, and never to the backend.
func (x *exchange) exposed(ctx context.Context) (a answer, ok bool) {
	if x.rules.Expose == nil || x.reverse {
		return answer{}, false
	}
	var result jsonx.Value
	var err error
	switch x.msg.Method {
	case interceptor.MethodList:
		result, err = x.rules.Expose.List(ctx, x.msg.Params)
	case interceptor.MethodInvoke, "interceptors/invoke":
		result, err = x.rules.Expose.Invoke(ctx, x.msg.Params)
	default:
		return answer{}, false
	}
	if stop := x.interrupted(); stop != nil {
		return x.conclude(ctx, verdictOfInterrupt(stop)), true
	}
	none := &chain.Result{Status: schemas.StatusNotRun}
	if err != nil {
		rpc, known := errors.AsType[*wire.RPCError](err)
		if !known {
			rpc = &wire.RPCError{Code: wire.CodeInternal, Message: "The interceptor server does not answer"}
		}
		v := verdict{outcome: schemas.OutcomeError, rpc: rpc, text: err.Error()}
		return x.end(ctx, x.outcomeRecord(none, v), errorAnswer(x.msg.ID, rpc)), true
	}
	rec := x.outcomeRecord(none, verdict{outcome: schemas.OutcomeAllowed})
	addBody(rec, result, none, 0)
	return x.end(ctx, rec, answer{raw: wire.NewResponse(x.msg.ID, result), changed: true}), true
}

// extend adds the capability to what a server says of itself (SEP-2624: extensions, with the supported events).
func extend(result jsonx.Value, events []string) (jsonx.Value, bool) {
	if result.Kind() != '{' {
		return result, false
	}
	setting := []byte(`{"supportedEvents":[`)
	for i, event := range events {
		if i > 0 {
			setting = append(setting, ',')
		}
		setting = appendQuoted(setting, event)
	}
	capabilities := memberOrEmpty(result, "capabilities")
	extensions := wire.WithMember(memberOrEmpty(capabilities, "extensions"), interceptor.ExtensionName, append(setting, "]}"...))
	return wire.WithMember(result, "capabilities", wire.WithMember(capabilities, "extensions", extensions)), true
}

func memberOrEmpty(v jsonx.Value, name string) jsonx.Value {
	if m, ok := jsonx.Lookup(v, name); ok && m.Kind() == '{' {
		return m
	}
	return jsonx.Value("{}")
}
