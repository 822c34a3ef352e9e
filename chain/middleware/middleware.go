package middleware

import (
	"context"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/exchange"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Caller is who sent a request.
type Caller struct {
	Principal  chain.Principal
	VerifiedBy string // configured name of what verified it; empty: asserted only
	Session    string // what interceptors are told as session id; empty: that of the MCP session, if it has one
}

// Options are what a [Middleware] is made of.
type Options struct {
	Plan       func() *chain.Plan // required: the plan in force at each request, such as Set.Current; nil from it: none
	Recorder   chain.Recorder     // nil: nothing is recorded
	Background *chain.Background  // does the deferred work; required without a Recorder, unused with one
	Server     string             // required: name of this server, for the record
	Events     []string           // patterns of the methods that are intercepted; empty: all
	Skip       []string           // methods that never go through the plan; nil: DefaultSkip
	// Identify tells who sent a request; nil: the go-sdk's verified bearer token does, and without one everybody is
	// anonymous. It MUST be safe for concurrent use.
	Identify func(ctx context.Context, req mcp.Request) Caller
	Key      seal.Key // pseudonym key of the tenant
	Tenant   string
	Gateway  string // configured name of this process
}

// DefaultSkip lists the methods that are left out: lifecycle, because nothing is negotiated yet, and interceptor
// methods, because of endless recursion.
func DefaultSkip() []string {
	return []string{
		"initialize", "notifications/initialized", "notifications/cancelled", "ping", "server/discover",
		"subscriptions/listen", "interceptors/list", "interceptor/invoke", "interceptor/list", "interceptors/invoke",
		"interceptor/executeChain",
	}
}

// Middleware takes what a server receives through a plan. All methods are concurrent.
type Middleware struct {
	opts   Options
	runner *exchange.Runner
}

// New returns a middleware; add its Receive to servers.
func New(opts Options) (*Middleware, error) {
	if opts.Skip == nil {
		opts.Skip = DefaultSkip()
	}
	if opts.Identify == nil {
		opts.Identify = byToken
	}
	runner, err := exchange.New(exchange.Options{
		Plan: opts.Plan, Recorder: opts.Recorder, Background: opts.Background, Server: opts.Server,
		Request: schemas.Receiving, Events: opts.Events,
		Skip: func(method string) bool { return slices.Contains(opts.Skip, method) },
		Key:  opts.Key, Tenant: opts.Tenant, Gateway: opts.Gateway,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names what is missing
	}
	return &Middleware{opts: opts, runner: runner}, nil
}

// byToken trusts what the go-sdk's bearer token middleware verified.
func byToken(_ context.Context, req mcp.Request) Caller {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil || extra.TokenInfo.UserID == "" {
		return Caller{}
	}
	return Caller{Principal: chain.Principal{Type: "user", ID: extra.TokenInfo.UserID}, VerifiedBy: "bearer_token"}
}

// Receive is a mcp.Middleware: server.AddReceivingMiddleware(m.Receive). Middleware that is added later stands before
// it, and sees neither the changed params nor the denied requests' way.
func (m *Middleware) Receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if !m.runner.Due(method) {
			return next(ctx, method, req)
		}
		return m.exchange(ctx, method, req, next)
	}
}

// exchange takes one request through the plan, the handler, and the plan.
func (m *Middleware) exchange(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	params, err := exchange.Encode(req.GetParams())
	if err != nil {
		return nil, unusable(err)
	}
	var result mcp.Result
	request := m.request(ctx, method, params, req)
	request.Accept = func(changed jsonx.Value) error {
		fresh, err := withResult(result, changed)
		if err != nil {
			return unusable(err)
		}
		result = fresh
		return nil
	}
	_, err = m.runner.Do(ctx, request, func(ctx context.Context, sent exchange.Message) (jsonx.Value, error) {
		use := req
		if sent.Changed {
			if use, err = withParams(req, sent.Payload); err != nil {
				return nil, unusable(err)
			}
		}
		if result, err = next(ctx, method, use); err != nil {
			return nil, err
		}
		came, err := exchange.Encode(result)
		if err != nil {
			return nil, unusable(err)
		}
		return came, nil
	})
	if err != nil {
		return nil, rpcError(err)
	}
	return result, nil
}

// request tells what is known of the request.
func (m *Middleware) request(ctx context.Context, method string, params jsonx.Value, req mcp.Request) *exchange.Request {
	caller := m.opts.Identify(ctx, req)
	r := &exchange.Request{
		Method: method, Params: params, Principal: caller.Principal, VerifiedBy: caller.VerifiedBy, Session: caller.Session,
	}
	if session, ok := req.GetSession().(*mcp.ServerSession); ok && session != nil {
		if r.Session == "" {
			r.Session = session.ID()
		}
		if init := session.InitializeParams(); init != nil {
			r.Protocol = init.ProtocolVersion
			if init.ClientInfo != nil {
				r.ClientName, r.ClientVer = init.ClientInfo.Name, init.ClientInfo.Version
			}
		}
	}
	if extra := req.GetExtra(); extra != nil && extra.Header != nil {
		r.Transport, r.Traceparent = "http", extra.Header.Get("Traceparent")
	}
	return r
}

// rpcError keeps code and data for the peer, which the SDK only does for its own bare type. Errors of the handler stay
// as they are.
func rpcError(err error) error {
	if errors.Is(err, exchange.ErrNotRecorded) {
		return &jsonrpc.Error{
			Code: wire.CodeInternal, Message: "not recorded: the audit trail does not accept events", Data: []byte(`{"cause":"audit_failed"}`),
		}
	}
	if denied, ok := errors.AsType[*chain.DeniedError](err); ok {
		return &jsonrpc.Error{Code: int64(denied.Code), Message: denied.Message, Data: denied.Data}
	}
	return err
}

// unusable is the error for what cannot be brought from or to a typed value: nothing goes on that was not judged.
func unusable(err error) error {
	return &jsonrpc.Error{Code: wire.CodeInternal, Message: "interceptors: " + err.Error()}
}
