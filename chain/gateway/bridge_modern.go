package gateway

import (
	"context"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// answerModern answers a client of 2026-07-28 from a server that needs a handshake. That was made for
// the connection: what the client says of itself in each request stays behind.
func (f *far) answerModern(ctx context.Context, msg *wire.Message) (jsonx.Value, error) {
	switch msg.Method {
	case methodDiscover:
		return f.discovered(), nil
	case methodListen, methodInitialize:
		return nil, f.cross(msg.Method)
	}
	result, err := f.client.Call(ctx, msg.Method, withoutEnvelope(msg.Params))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the method, or is the server's answer
	}
	return asModern(msg.Method, result), nil
}

// discovered makes the answer to server/discover of that to initialize.
func (f *far) discovered() jsonx.Value {
	out := jsonx.Value("{}")
	if f.server.Instructions != "" {
		text, _ := jsonx.AppendQuote(nil, f.server.Instructions)
		out = wire.WithMember(out, "instructions", text)
	}
	if info, ok := wire.Member(f.server.Result, "serverInfo"); ok {
		out = wire.WithMember(out, "_meta", wire.WithMember(nil, wire.MetaServerInfo, info))
	}
	out = wire.WithMember(out, "capabilities", withoutSubscriptions(f.server.Capabilities))
	out = wire.WithMember(out, "supportedVersions", jsonx.Value(`["`+wire.Version20260728+`"]`))
	return asModern(methodDiscover, out)
}

// withoutEnvelope takes out of params what 2026-07-28 says in every request, and what only it knows.
func withoutEnvelope(params jsonx.Value) jsonx.Value {
	meta, ok := wire.Member(params, "_meta")
	if ok {
		params = wire.WithMember(params, "_meta", without(meta, func(name string) bool {
			switch name {
			case wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel:
				return true
			}
			return false
		}))
	}
	return params
}

// asModern adds to a result what 2026-07-28 demands of it. Of what an older server says it is not known
// for how long it holds and for whom.
func asModern(method string, result jsonx.Value) jsonx.Value {
	need := func(name, value string) {
		if _, has := wire.Member(result, name); !has {
			result = wire.WithMember(result, name, jsonx.Value(value))
		}
	}
	switch method {
	case methodDiscover, methodToolsList, methodPromptsList, "resources/list", "resources/templates/list", "resources/read":
		need("cacheScope", `"private"`)
		need("ttlMs", "0")
	}
	need("resultType", `"complete"`)
	return result
}
