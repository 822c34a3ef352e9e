package interceptor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Install adds the interceptor methods and the capability to go-sdk servers, beside whatever they have; their other
// methods are not touched. Params and results go through them byte for byte. Call it once for a server, before it has
// sessions: the methods of a second set would take the place of the first one's. The same set may be installed on
// several servers.
func (s *Server) Install(servers ...*mcp.Server) error {
	for i, server := range servers {
		if server == nil {
			return fmt.Errorf("install interceptors: server %d is nil", i)
		}
	}
	for _, server := range servers {
		for _, method := range methods() {
			err := mcp.AddReceivingCustomMethod(server, method,
				func(ctx context.Context, session *mcp.ServerSession, p *sdkParams) (*sdkResult, error) {
					var params jsonx.Value
					if p != nil {
						params = p.raw
					}
					return s.handleSDK(ctx, session, method, params)
				})
			if err != nil {
				return fmt.Errorf("install interceptors: %w", err)
			}
		}
		server.AddReceivingMiddleware(s.advertise)
	}
	return nil
}

// methods are those that a go-sdk server gets. The removed one is there to be answered with -32601: what the SDK's
// HTTP transport does not know it refuses with a bare status, which ends its client's session.
func methods() []string {
	return []string{MethodList, listAlias, MethodInvoke, invokeAlias, "interceptor/executeChain"}
}

func (s *Server) handleSDK(ctx context.Context, session *mcp.ServerSession, method string, params jsonx.Value) (*sdkResult, error) {
	traits, err := jsonx.Verify(params, 0) // the SDK has decoded it, but less strictly
	if params != nil && (err != nil || traits.Duplicates || traits.InvalidUTF8) {
		return nil, sdkError(badParams("params are not strict JSON"))
	}
	request := RequestOf(ctx)
	request.Session = session
	result, err := s.Handle(withRequest(ctx, &request), method, params)
	if err != nil {
		return nil, sdkError(rpcError(err))
	}
	return &sdkResult{raw: result}, nil
}

// sdkError keeps code and data, which the SDK only does for its own bare type.
func sdkError(e *wire.RPCError) error {
	return &jsonrpc.Error{Code: int64(e.Code), Message: e.Message, Data: []byte(e.Data)}
}

// advertise adds the extension to what the server says of itself, and hands on what only middleware sees of a request.
func (s *Server) advertise(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if slices.Contains(methods(), method) {
			if extra := req.GetExtra(); extra != nil {
				ctx = withRequest(ctx, &Request{Header: extra.Header, Token: extra.TokenInfo})
			}
			return next(ctx, method, req)
		}
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		switch r := result.(type) {
		case *mcp.InitializeResult:
			r.Capabilities = s.withExtension(r.Capabilities)
		case *mcp.DiscoverResult:
			r.Capabilities = s.withExtension(r.Capabilities)
		}
		return result, nil
	}
}

// withExtension works on a copy, because the SDK may hand out its own value.
func (s *Server) withExtension(c *mcp.ServerCapabilities) *mcp.ServerCapabilities {
	var out mcp.ServerCapabilities
	if c != nil {
		out = *c
	}
	out.Extensions = maps.Clone(out.Extensions)
	out.AddExtension(ExtensionName, map[string]any{"supportedEvents": rawJSON(s.events)})
	return &out
}

// rawJSON is JSON that any encoder takes as it is.
type rawJSON []byte

// MarshalJSON implements the encoders' interface.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// sdkParams holds params as they came.
type sdkParams struct {
	mcp.ParamsBase
	raw jsonx.Value
}

// UnmarshalJSON implements the decoders' interface.
func (p *sdkParams) UnmarshalJSON(b []byte) error {
	p.raw = bytes.Clone(b)
	return nil
}

// MarshalJSON implements the encoders' interface.
func (p *sdkParams) MarshalJSON() ([]byte, error) { return p.raw, nil }

// sdkResult holds a result as it goes. The SDK adds _meta on 2026-07-28.
type sdkResult struct {
	mcp.ResultBase
	raw jsonx.Value
}

// MarshalJSON implements the encoders' interface; _meta goes last, because type is to be the first member.
func (r *sdkResult) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return r.raw, nil
	}
	meta, err := jsonx.Marshal(map[string]any(r.Meta))
	if err != nil {
		return nil, fmt.Errorf("encode _meta: %w", err)
	}
	out := append(bytes.Clone(r.raw[:len(r.raw)-1]), `,"_meta":`...)
	return append(append(out, meta...), '}'), nil
}

// UnmarshalJSON implements the decoders' interface.
func (r *sdkResult) UnmarshalJSON(b []byte) error {
	r.raw = bytes.Clone(b)
	return nil
}
