package gateway

import (
	"bytes"

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
	wanted := wire.TargetMember(msg.Method)
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

func clientInfoOf(v jsonx.Value) clientInfo {
	var c clientInfo
	if len(v) == 0 || v[0] != '{' {
		return c
	}
	c.name, _ = wire.MemberString(v, "name")
	c.version, _ = wire.MemberString(v, "version")
	return c
}

// stateOf returns the requestState of a result, if it has one.
func stateOf(result jsonx.Value) string {
	if !bytes.Contains(result, []byte(`"requestState"`)) {
		return ""
	}
	s, _ := wire.MemberString(result, "requestState")
	return s
}
