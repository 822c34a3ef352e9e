package wire

import (
	"bytes"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Names of _meta members.
const (
	MetaTraceparent        = "traceparent"
	MetaTracestate         = "tracestate"
	MetaProgressToken      = "progressToken"
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
)

// Member returns one top-level member of v by its exact name; v MUST be grammatical.
func Member(v jsonx.Value, name string) (jsonx.Value, bool) { return jsonx.Lookup(v, name) }

// MemberString returns one top-level member of v if it is a string.
func MemberString(v jsonx.Value, name string) (string, bool) {
	m, ok := jsonx.Lookup(v, name)
	if !ok {
		return "", false
	}
	return jsonx.StringOf(m)
}

// Meta is what the _meta of params or a result says that a proxy needs.
type Meta struct {
	Traceparent        string
	Tracestate         string
	ProtocolVersion    string
	ProgressToken      jsonx.Value // nil when absent
	ClientInfo         jsonx.Value // nil when absent
	ClientCapabilities jsonx.Value // nil when absent
	SubscriptionID     jsonx.Value // nil when absent
}

// MetaOf reads the _meta member of params or of a result, which MUST be grammatical. Members of
// other types than expected are left empty.
func MetaOf(v jsonx.Value) Meta {
	var meta Meta
	raw, ok := jsonx.Lookup(v, "_meta")
	if !ok {
		return meta
	}
	for m := range jsonx.Members(raw) {
		switch string(m.Name) {
		case MetaTraceparent:
			meta.Traceparent, _ = jsonx.StringOf(m.Value)
		case MetaTracestate:
			meta.Tracestate, _ = jsonx.StringOf(m.Value)
		case MetaProtocolVersion:
			meta.ProtocolVersion, _ = jsonx.StringOf(m.Value)
		case MetaProgressToken:
			meta.ProgressToken = m.Value
		case MetaClientInfo:
			meta.ClientInfo = m.Value
		case MetaClientCapabilities:
			meta.ClientCapabilities = m.Value
		case MetaSubscriptionID:
			meta.SubscriptionID = m.Value
		}
	}
	return meta
}

// WithMember returns the object v with one member set, all else byte for byte. v MUST be a
// grammatical object, anything else counts as an empty one; value MUST be grammatical.
func WithMember(v jsonx.Value, name string, value jsonx.Value) jsonx.Value {
	for m := range jsonx.Members(v) {
		if string(m.Name) == name {
			return splice(v, m.At, len(m.Value), value)
		}
	}
	open := len(v) - len(bytes.TrimLeft(v, " \t\r\n"))
	if open == len(v) || v[open] != '{' {
		v, open = jsonx.Value("{}"), 0
	}
	member := appendString(make([]byte, 0, len(name)+len(value)+4), name)
	member = append(member, ':')
	member = append(member, value...)
	for range jsonx.Members(v) {
		member = append(member, ',')
		break
	}
	return splice(v, open+1, 0, member)
}
