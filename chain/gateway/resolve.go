package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Resolver chooses interceptor servers for a request, beside or in place of the plan that is in force for
// all. It is called for each request that can be intercepted, concurrently, before anything of it is
// recorded or forwarded.
type Resolver interface {
	// Resolve returns the choice; an error denies the request, and its text stands in the record only.
	// It keeps nothing of r.
	Resolve(ctx context.Context, r *Request) (Resolution, error)
}

// Request is what a [Resolver] chooses by. Nothing of it may be changed.
type Request struct {
	Event   string      // MCP method
	Params  jsonx.Value // as they came in; nil: none
	Target  string      // tool or prompt name, or resource URI
	Backend string
	Reverse bool // asked by the server of the client
	Caller  Caller
	Headers http.Header // of the HTTP request; of the one that began the session for a stdio backend; nil on stdio
	Session string      // MCP session id; empty: none
}

// Resolution is what a [Resolver] chose. The zero value is the plan in force, and nothing else.
type Resolution struct {
	// Hosts are further interceptor servers. A server is known by its Ref.Host: while one is connected
	// under that name, it is used again.
	Hosts []chain.HostSpec
	// Alone leaves the plan in force out.
	Alone bool
}

var errForeignPlan = errors.New("the plan in force is not a *chain.Plan, so that nothing can be added to it")

// mayResolve reports whether the plan of the exchange is still to be chosen.
func (x *exchange) mayResolve() bool {
	return x.rules.Resolver != nil && !wire.NeverChained(x.msg.Method) && x.rules.chains(x.msg.Method)
}

// resolve chooses the plan of the exchange, for both phases.
func (x *exchange) resolve(ctx context.Context) verdict {
	if !x.mayResolve() {
		return verdict{}
	}
	choice, err := x.rules.Resolver.Resolve(ctx, &Request{
		Event: x.msg.Method, Params: x.msg.Params, Target: x.facts.target, Backend: x.lane.backend.Name, Reverse: x.reverse,
		Caller: x.caller, Headers: x.header, Session: x.session.id,
	})
	var base *chain.Plan
	if err == nil && !choice.Alone {
		static, known := x.plan.(*chain.Plan)
		if base = static; !known && x.plan != nil && len(choice.Hosts) > 0 {
			err = errForeignPlan
		}
	}
	switch {
	case err != nil:
		return x.unresolved(ctx, err)
	case len(choice.Hosts) == 0 && !choice.Alone:
		return verdict{}
	case len(choice.Hosts) == 0:
		x.setPlan(nil, nil)
		return verdict{}
	}
	plan, release, err := x.lane.pool.Plan(ctx, base, choice.Hosts)
	if err != nil {
		return x.unresolved(ctx, err)
	}
	x.setPlan(plan, release)
	return verdict{}
}

// unresolved is the verdict where nobody knows which interceptors a request needs: none may be left out.
func (x *exchange) unresolved(ctx context.Context, err error) verdict {
	if why := x.interrupted(); why != nil {
		return verdictOfInterrupt(why)
	}
	if n, say := x.lane.unresolved.note(time.Now()); say {
		x.lane.log.ErrorContext(ctx, "interceptors not resolved, their calls are refused", slog.Any("error", err), slog.Uint64("requests", n))
	}
	return verdict{
		outcome: schemas.OutcomeDenied, cause: causeUnresolved, text: err.Error(),
		rpc: &wire.RPCError{Code: wire.CodeInternal, Message: "the interceptors for this request are not available"},
	}
}

// setPlan replaces the plan; release is called when the exchange has ended.
func (x *exchange) setPlan(plan Plan, release func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plan, x.release = plan, release
}

// inForce is the plan of the exchange; nil: none.
func (x *exchange) inForce() Plan {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.plan
}

// recordPlan journals a plan that the pool made, before it decides anything.
func (g *Gateway) recordPlan(ctx context.Context, plan *chain.Plan) error {
	p, refs := plan.Record()
	rec := &schemas.Record{Event: schemas.Event{Kind: schemas.KindPlan, Tenant: g.opts.Tenant, Gateway: g.opts.Gateway, Plan: &p}}
	hosts, err := jsonx.Marshal(refs)
	if err != nil {
		return err
	}
	rec.Add(schemas.RoleHosts, 0, hosts)
	return g.opts.Recorder.Record(context.WithoutCancel(ctx), rec)
}
