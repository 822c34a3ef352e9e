package interceptor

import (
	"fmt"
	"strconv"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Call is one invocation, as the handler sees it. Values alias the message: they may be read, and
// kept, but not modified.
type Call struct {
	Name    string // of the interceptor
	Event   string
	Phase   schemas.Phase
	Payload jsonx.Value // bare params of a request, result of a response
	Config  jsonx.Value // nil when the invoker sent none: use your defaults
	Context jsonx.Value // nil when the invoker sent none; see [Call.Caller]
	Meta    jsonx.Value // _meta of the invocation; nil when absent
	Timeout int64       // milliseconds the invoker allows, 0 when it names none; the context ends by then

	envelope jsonx.Value // the payload as it came, when it was {method, params}
	version  string      // protocol version that the call names; empty when it names none
}

// Caller is who made the operation, as the invoker tells.
type Caller struct {
	Principal struct {
		Type   string      `json:"type"`
		ID     string      `json:"id"`
		Claims jsonx.Value `json:"claims,omitempty"`
	} `json:"principal"`
	TraceID   string `json:"traceId"`
	SpanID    string `json:"spanId"`
	Timestamp string `json:"timestamp"` // RFC 3339
	SessionID string `json:"sessionId"`
	Server    string `json:"io.chaintrail/server"` // configured name of the MCP server; chaintrail tells it
	Target    string `json:"io.chaintrail/target"` // of a response: the tool, prompt or resource; chaintrail tells it
}

// Caller decodes the context liberally: what is missing is empty.
func (c *Call) Caller() (Caller, error) {
	var caller Caller
	if c.Context == nil || string(c.Context) == "null" {
		return caller, nil
	}
	if err := jsonx.Unmarshal(c.Context, &caller); err != nil {
		return caller, fmt.Errorf("decode context: %w", err)
	}
	return caller, nil
}

// SessionID is the session of the context, empty when there is none.
func (c *Call) SessionID() string {
	id, _ := wire.MemberString(c.Context, "sessionId")
	return id
}

// Decode decodes the payload into v. It loses what v has no place for: to change a payload and keep
// the rest, edit the raw bytes, or decode into a map of jsonx.Value.
func (c *Call) Decode(v any) error {
	if err := jsonx.Unmarshal(c.Payload, v); err != nil {
		return fmt.Errorf("decode payload: %w", err)
	}
	return nil
}

// DecodeConfig decodes the config into v, and leaves v as it is when there is none.
func (c *Call) DecodeConfig(v any) error {
	if c.Config == nil || string(c.Config) == "null" {
		return nil
	}
	if err := jsonx.Unmarshal(c.Config, v); err != nil {
		return fmt.Errorf("decode config: %w", err)
	}
	return nil
}

// parseCall reads the params of interceptor/invoke, which MUST be grammatical. It says what is wrong
// with them.
func parseCall(params jsonx.Value) (call *Call, fault string) {
	call = &Call{}
	var phase string
	ok := true
	if len(params) == 0 || params[0] != '{' {
		return nil, "params are not an object"
	}
	str := func(v jsonx.Value, name string) string {
		s, isString := jsonx.StringOf(v)
		if !isString {
			ok, fault = false, name+" is not a string"
		}
		return s
	}
	for m := range jsonx.Members(params) {
		switch string(m.Name) {
		case "name":
			call.Name = str(m.Value, "name")
		case "event":
			call.Event = str(m.Value, "event")
		case "phase":
			switch string(m.Value) { // as it is nearly always written
			case `"request"`:
				phase = string(schemas.PhaseRequest)
			case `"response"`:
				phase = string(schemas.PhaseResponse)
			default:
				phase = str(m.Value, "phase")
			}
		case "payload":
			call.Payload = m.Value
		case "config":
			call.Config = m.Value
		case "context":
			call.Context = m.Value
		case "_meta":
			call.Meta = m.Value
		case "timeoutMs":
			if call.Timeout, ok = milliseconds(m.Value); !ok {
				fault = "timeoutMs is not a positive number"
			}
		}
		if !ok {
			return nil, fault
		}
	}
	call.Phase = schemas.Phase(phase)
	if fault := call.complete(); fault != "" {
		return nil, fault
	}
	return call, ""
}

// complete checks the members and finds out the rest. It says what is wrong with them.
func (c *Call) complete() (fault string) {
	switch {
	case c.Name == "":
		return "name is missing"
	case c.Event == "":
		return "event is missing"
	case c.Phase != schemas.PhaseRequest && c.Phase != schemas.PhaseResponse:
		return "phase is neither request nor response"
	case len(c.Payload) == 0:
		return "payload is missing"
	case c.Timeout < 0:
		return "timeoutMs is not a positive number"
	}
	c.Timeout = min(c.Timeout, maxTimeout)
	c.version, _ = wire.MemberString(c.Meta, wire.MetaProtocolVersion)
	c.unwrap()
	return ""
}

// maxTimeout bounds timeoutMs to a day, so that no multiplication overflows.
const maxTimeout = 24 * 60 * 60 * 1000

// milliseconds reads a positive number; fractions are rounded up, null is none.
func milliseconds(v jsonx.Value) (int64, bool) {
	if string(v) == "null" {
		return 0, true
	}
	if n, err := strconv.ParseUint(string(v), 10, 32); err == nil && n > 0 && n < maxTimeout { // as it is nearly always written
		return int64(n), true
	}
	var f float64
	if err := jsonx.Unmarshal(v, &f); err != nil || f <= 0 {
		return 0, false
	}
	if f >= maxTimeout {
		return maxTimeout, true
	}
	n := int64(f)
	if float64(n) < f {
		n++
	}
	return n, true
}

// unwrap takes the params out of a request payload that came as {method, params}: a string method
// equal to the event, params that are an object, and nothing else but JSON-RPC members.
func (c *Call) unwrap() {
	if c.Phase != schemas.PhaseRequest || c.Payload[0] != '{' {
		return
	}
	var params jsonx.Value
	sameMethod := false
	for m := range jsonx.Members(c.Payload) {
		switch string(m.Name) {
		case "method":
			method, ok := jsonx.StringOf(m.Value)
			sameMethod = ok && method == c.Event
		case "params":
			params = m.Value
		case "jsonrpc", "id":
		default:
			return
		}
	}
	if sameMethod && len(params) > 0 && params[0] == '{' {
		c.envelope, c.Payload = c.Payload, params
	}
}

// wrap brings a payload back into the shape that came in.
func (c *Call) wrap(payload jsonx.Value) jsonx.Value {
	if c.envelope == nil {
		return payload
	}
	return wire.WithMember(c.envelope, "params", payload)
}
