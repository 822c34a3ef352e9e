package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// PrepareClient registers the methods of SEP-2624 on a go-sdk client, so that its sessions can host interceptors. Call
// it once, before the client connects.
func PrepareClient(client *mcp.Client) error {
	for _, method := range []string{interceptor.MethodList, interceptor.MethodInvoke, pluralInvoke} {
		if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](client, method); err != nil {
			return fmt.Errorf("prepare client for interceptors: %w", err)
		}
	}
	return nil
}

// Session serves the interceptors of the server at the other end of a go-sdk session, whatever its transport; it may
// have tools too. The client was prepared with [PrepareClient]. The session stays the caller's: nothing here closes it,
// and when it ends, its interceptors count as lost until their server is removed from the [Set].
func Session(session *mcp.ClientSession) func(context.Context) (Conn, error) {
	return func(context.Context) (Conn, error) { return sdkSession{session}, nil }
}

type sdkSession struct{ session *mcp.ClientSession }

// Call implements [Caller]. Params and results go through byte for byte, but for the _meta that MCP 2026-07-28 demands.
func (s sdkSession) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	result, err := mcp.CallCustomMethod[*rawParams, *rawResult](ctx, s.session, method, newRawParams(params))
	if err == nil {
		return result.raw, nil
	}
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, &wire.RPCError{Code: int(rpc.Code), Message: rpc.Message, Data: rpc.Data}
	}
	return nil, err
}

func (s sdkSession) protocol() string {
	if result := s.session.InitializeResult(); result != nil {
		return result.ProtocolVersion
	}
	return ""
}

func (s sdkSession) Done() <-chan struct{} { return nil }
func (s sdkSession) Close() error          { return nil }

// rawParams are params as they are, with the _meta that the SDK adds.
type rawParams struct {
	mcp.ParamsBase
	raw jsonx.Value
}

// newRawParams moves _meta to where the SDK adds to it.
func newRawParams(params jsonx.Value) *rawParams {
	p := &rawParams{raw: params}
	if meta, ok := jsonx.Lookup(params, "_meta"); ok {
		var m map[string]any
		if err := jsonx.Unmarshal(meta, &m); err == nil {
			p.SetMeta(m)
		}
	}
	return p
}

// MarshalJSON implements the encoders' interface.
func (p *rawParams) MarshalJSON() ([]byte, error) {
	if len(p.Meta) == 0 {
		if p.raw == nil {
			return []byte("{}"), nil
		}
		return p.raw, nil
	}
	meta, err := jsonx.Marshal(map[string]any(p.Meta))
	if err != nil {
		return nil, fmt.Errorf("encode _meta: %w", err)
	}
	return wire.WithMember(p.raw, "_meta", meta), nil
}

// UnmarshalJSON implements the decoders' interface; params are only sent.
func (p *rawParams) UnmarshalJSON(b []byte) error {
	p.raw = bytes.Clone(b)
	return nil
}

// rawResult is a result as it came.
type rawResult struct {
	mcp.ResultBase
	raw jsonx.Value
}

// MarshalJSON implements the encoders' interface.
func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }

// UnmarshalJSON implements the decoders' interface.
func (r *rawResult) UnmarshalJSON(b []byte) error {
	r.raw = bytes.Clone(b)
	return nil
}
