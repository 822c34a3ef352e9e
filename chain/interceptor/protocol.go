package interceptor

import (
	"context"
	"slices"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Handle answers one request of MCP or SEP-2624 by its method; params MUST be grammatical or nil. The
// error is a *[wire.RPCError], or the cause of ctx when that ended first.
func (s *Server) Handle(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	version := wire.MetaOf(params).ProtocolVersion
	modern := wire.Modern(version)
	if version != "" && !slices.Contains(wire.Versions(), version) {
		return nil, unsupportedVersion(version)
	}
	switch {
	case method == MethodInvoke || method == invokeAlias:
		return s.Invoke(ctx, params)
	case method == MethodList || method == listAlias:
		return s.List(ctx, params)
	case method == wire.MethodDiscover && modern:
		return s.discover(), nil
	case method == wire.MethodInitialize && !modern:
		return s.initialize(params), nil
	case method == wire.MethodPing && !modern:
		return jsonx.Value("{}"), nil
	}
	return nil, &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "Method not found"}
}

func unsupportedVersion(requested string) *wire.RPCError {
	data := []byte(`{"supported":`)
	data = append(data, versionList()...)
	data = append(appendQuoted(append(data, `,"requested":`...), requested), '}')
	return &wire.RPCError{Code: wire.CodeVersion, Message: "Unsupported protocol version", Data: data}
}

func versionList() jsonx.Value { return eventList(wire.Versions()) }

// initialize agrees to the version asked for if we know it, else offers the newest that has sessions.
func (s *Server) initialize(params jsonx.Value) jsonx.Value {
	version, _ := wire.MemberString(params, "protocolVersion")
	if !slices.Contains(wire.LegacyVersions(), version) {
		version = wire.LegacyVersions()[0]
	}
	out := appendQuoted([]byte(`{"protocolVersion":`), version)
	out = append(s.appendCapabilities(append(out, `,"capabilities":`...)), `,"serverInfo":`...)
	out = s.appendInfo(out)
	return append(s.appendInstructions(out), '}')
}

func (s *Server) discover() jsonx.Value {
	out := append([]byte(`{"resultType":"complete","supportedVersions":`), versionList()...)
	out = s.appendCapabilities(append(out, `,"capabilities":`...))
	out = s.appendInstructions(out)
	out = append(out, `,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":`...)
	return append(s.appendInfo(out), "}}"...)
}

func (s *Server) appendCapabilities(dst []byte) []byte {
	dst = appendQuoted(append(dst, `{"extensions":{`...), ExtensionName)
	dst = append(append(dst, `:{"supportedEvents":`...), s.events...)
	return append(dst, "}}}"...)
}

func (s *Server) appendInfo(dst []byte) []byte {
	dst = appendQuoted(append(dst, `{"name":`...), s.opts.Name)
	return append(appendQuoted(append(dst, `,"version":`...), s.opts.Version), '}')
}

func (s *Server) appendInstructions(dst []byte) []byte {
	if s.opts.Instructions == "" {
		return dst
	}
	return appendQuoted(append(dst, `,"instructions":`...), s.opts.Instructions)
}
