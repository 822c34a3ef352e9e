package gateway

import (
	"bytes"
	"encoding/hex"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// facts is what the gateway reads from the params of a request.
type facts struct {
	target       string // tool or prompt name, or resource URI
	requestState string // MRTR: leads to the call that this is a round of
	answers      bool   // it carries inputResponses
	asserted     jsonx.Value
	meta         wire.Meta
	client       clientInfo
	version      string // asked for by initialize
}

const metaInvocation = "io.modelcontextprotocol/aiInvocation" // SEP-2817: asserted by the client

func factsOf(msg *wire.Message) facts {
	var f facts
	if len(msg.Params) == 0 || msg.Params[0] != '{' {
		return f
	}
	wanted := targetMember(msg.Method)
	for m := range jsonx.Members(msg.Params) {
		switch name := string(m.Name); {
		case name == "_meta":
			f.meta = wire.MetaOf(msg.Params)
			f.client = clientInfoOf(f.meta.ClientInfo)
			f.asserted, _ = jsonx.Lookup(m.Value, metaInvocation)
		case name == "requestState":
			f.requestState, _ = jsonx.StringOf(m.Value)
		case name == "inputResponses":
			f.answers = true
		case name == wanted && wanted != "":
			f.target, _ = jsonx.StringOf(m.Value)
		case msg.Method == methodInitialize && name == "clientInfo":
			f.client = clientInfoOf(m.Value)
		case msg.Method == methodInitialize && name == "protocolVersion":
			f.version, _ = jsonx.StringOf(m.Value)
		}
	}
	return f
}

func targetMember(method string) string {
	switch method {
	case methodToolsCall, methodPromptsGet:
		return "name"
	case "resources/read", methodSubscribe, methodUnsubscribe:
		return "uri"
	}
	return ""
}

func clientInfoOf(v jsonx.Value) clientInfo {
	var c clientInfo
	if len(v) == 0 || v[0] != '{' {
		return c
	}
	c.name, _ = wire.MemberString(v, "name")
	c.version, _ = wire.MemberString(v, "version")
	return c
}

// isToolError reports whether a tool result says isError. Most results do not have the word.
func isToolError(result jsonx.Value) bool {
	if !bytes.Contains(result, []byte(`"isError"`)) {
		return false
	}
	v, ok := jsonx.Lookup(result, "isError")
	return ok && string(v) == "true"
}

// stateOf returns the requestState of a result, if it has one.
func stateOf(result jsonx.Value) string {
	if !bytes.Contains(result, []byte(`"requestState"`)) {
		return ""
	}
	s, _ := wire.MemberString(result, "requestState")
	return s
}

// trace splits a W3C traceparent; both parts are empty when it is not valid.
func trace(parent string) (traceID, spanID string) {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' || parent[:2] == "ff" ||
		(len(parent) > 55 && (parent[:2] == "00" || parent[55] != '-')) {
		return "", ""
	}
	traceID, spanID = parent[3:35], parent[36:52]
	if !lowerHex(traceID) || !lowerHex(spanID) {
		return "", ""
	}
	return traceID, spanID
}

func lowerHex(s string) bool {
	var b [16]byte
	zero := true
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
		zero = zero && s[i] == '0'
	}
	_, err := hex.Decode(b[:len(s)/2], []byte(s))
	return err == nil && !zero
}
