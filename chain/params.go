package chain

import (
	"maps"
	"slices"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// emptyPayload stands for params that a request does not have.
const emptyPayload = "{}"

// head is the part of the invoke params that belongs to the interceptor; what follows belongs to the message.
func (i *Interceptor) makeHead(config jsonx.Value) {
	head := append(make([]byte, 0, 64+len(config)), `{"name":`...)
	head = appendString(head, i.entry.OwnName())
	if config != nil {
		head = append(append(head, `,"config":`...), config...)
	}
	if i.entry.TimeoutMS > 0 {
		head = append(head, `,"timeoutMs":`...)
		head = appendInt(head, i.entry.TimeoutMS)
	}
	head = append(head, ',')
	i.head, i.config = head, config
}

// message holds the part of the invoke params that belongs to the message: encoded once, and copied behind the head of
// each interceptor.
type message struct {
	event     string
	phase     schemas.Phase
	context   []byte // encoded
	payload   jsonx.Value
	bare      []byte
	enveloped []byte
}

func newMessage(in *Input) message {
	return message{event: in.Event, phase: in.Phase, context: in.Context.append(make([]byte, 0, 256)), payload: in.Payload}
}

// body returns the encoded part for the current payload.
func (m *message) body(envelope bool) []byte {
	envelope = envelope && m.phase == schemas.PhaseRequest // a response is bare everywhere
	at := &m.bare
	if envelope {
		at = &m.enveloped
	}
	if *at != nil {
		return *at
	}
	b := make([]byte, 0, len(m.payload)+len(m.context)+2*len(m.event)+96)
	b = appendString(append(b, `"event":`...), m.event)
	b = appendString(append(b, `,"phase":`...), string(m.phase))
	b = append(b, `,"payload":`...)
	if envelope {
		b = appendString(append(b, `{"method":`...), m.event)
		b = append(b, `,"params":`...)
	}
	if m.payload == nil {
		b = append(b, emptyPayload...)
	} else {
		b = append(b, m.payload...)
	}
	if envelope {
		b = append(b, '}')
	}
	b = append(append(b, `,"context":`...), m.context...)
	*at = b
	return b
}

// prepare makes what an invocation of i reads of the message, so that several can read it at the same time.
func (m *message) prepare(i *Interceptor) {
	if i.direct == nil {
		m.body(i.entry.Envelope)
	}
}

// newCall is an invocation as an interceptor of this process takes it. It has copies of its own: a handler that changes
// them, against the rules, changes nothing that is forwarded or that another one sees.
func (i *Interceptor) newCall(m *message, meta jsonx.Value) *interceptor.Call {
	payload := m.payload
	if payload == nil {
		payload = jsonx.Value(emptyPayload)
	}
	all := make([]byte, 0, len(payload)+len(m.context)+len(i.config)+len(meta))
	own := func(v []byte) jsonx.Value {
		if v == nil {
			return nil
		}
		from := len(all)
		all = append(all, v...)
		return all[from:len(all):len(all)]
	}
	return &interceptor.Call{
		Name: i.entry.OwnName(), Event: m.event, Phase: m.phase, Payload: own(payload), Context: own(m.context),
		Config: own(i.config), Meta: own(meta), Timeout: max(0, i.entry.TimeoutMS),
	}
}

// replace makes another payload the current one.
func (m *message) replace(payload jsonx.Value) {
	m.payload, m.bare, m.enveloped = payload, nil, nil
}

// params joins head and body; meta is the value of _meta, nil for none.
func (i *Interceptor) params(body []byte, meta jsonx.Value) jsonx.Value {
	b := make([]byte, 0, len(i.head)+len(body)+len(meta)+12)
	b = append(append(b, i.head...), body...)
	if meta != nil {
		b = append(append(b, `,"_meta":`...), meta...)
	}
	return append(b, '}')
}

// append encodes the context as SEP-2624 has it.
func (c *Context) append(b []byte) []byte {
	b = append(b, '{')
	if c.Principal.Type != "" {
		b = appendString(append(b, `"principal":{"type":`...), c.Principal.Type)
		if c.Principal.ID != "" {
			b = appendString(append(b, `,"id":`...), c.Principal.ID)
		}
		if len(c.Principal.Claims) > 0 {
			b = append(b, `,"claims":{`...)
			for n, name := range slices.Sorted(maps.Keys(c.Principal.Claims)) {
				if n > 0 {
					b = append(b, ',')
				}
				b = append(appendString(b, name), ':')
				b = appendString(b, c.Principal.Claims[name])
			}
			b = append(b, '}')
		}
		b = append(b, '}', ',')
	}
	if c.TraceID != "" {
		b = append(appendString(append(b, `"traceId":`...), c.TraceID), ',')
	}
	if c.SpanID != "" {
		b = append(appendString(append(b, `"spanId":`...), c.SpanID), ',')
	}
	b = append(b, `"timestamp":"`...)
	b = append(c.Timestamp.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00"), '"')
	if c.SessionID != "" {
		b = appendString(append(b, `,"sessionId":`...), c.SessionID)
	}
	if c.Server != "" {
		b = appendString(append(b, `,"io.chaintrail/server":`...), c.Server)
	}
	if c.Target != "" {
		b = appendString(append(b, `,"io.chaintrail/target":`...), c.Target)
	}
	return append(b, '}')
}
