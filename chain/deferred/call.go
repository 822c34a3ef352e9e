package deferred

import (
	"fmt"
	"strconv"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Members of _meta that deferred work hands over.
const (
	metaInvocation = "io.chaintrail/invocationId" // the same on every try: an idempotency key
	metaExchange   = "io.chaintrail/exchange"
	metaPhase      = "io.chaintrail/phase"
	metaStage      = "io.chaintrail/stage" // what the payload is: before, after or step.N
	metaAttempt    = "io.chaintrail/attempt"
)

// call is one invocation as it goes out, but for what differs from try to try.
type call struct {
	entry   schemas.PlanEntry
	event   string
	phase   schemas.Phase
	payload jsonx.Value
	head    []byte // params up to the timeout
	meta    []byte // _meta up to the attempt
}

// newCall rebuilds the call that the interceptor would have got in the path. about is the JSON of a
// [schemas.Context], nil where that is gone.
func newCall(e *schemas.Event, inv *schemas.Invocation, target Target, payload, about []byte) (*call, error) {
	if e.Operation == nil {
		return nil, fmt.Errorf("%w: the event has no operation", ErrPayload)
	}
	if _, err := jsonx.Verify(payload, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	c := &call{entry: target.Entry, event: e.Operation.Event, phase: e.Operation.Phase, payload: payload}
	context, err := contextOf(e, about)
	if err != nil {
		return nil, err
	}
	if method := context.method; method != "" && c.event == "other" {
		c.event = method // what the event could not seal in clear
	}
	p := params{b: make([]byte, 0, len(payload)+len(target.Config)+512)}
	p.b = append(p.b, `{"name":`...)
	p.text(target.Entry.Name)
	p.member("event", c.event)
	p.member("phase", string(c.phase))
	p.b = append(p.b, `,"payload":`...)
	if target.Entry.Envelope && c.phase == schemas.PhaseRequest {
		p.b = append(p.b, `{"method":`...)
		p.text(c.event)
		p.b = append(p.b, `,"params":`...)
		p.b = append(append(p.b, payload...), '}')
	} else {
		p.b = append(p.b, payload...)
	}
	if len(target.Config) > 0 {
		p.b = append(append(p.b, `,"config":`...), target.Config...)
	}
	p.b = append(append(p.b, `,"context":`...), context.json...)
	c.head = p.b

	meta := params{b: append(make([]byte, 0, 256), `,"_meta":{`...)}
	meta.text(metaInvocation)
	meta.b = append(meta.b, ':')
	meta.text(inv.ID)
	if e.Correlation != nil {
		meta.member(metaExchange, e.Correlation.Exchange.String())
	}
	meta.member(metaPhase, string(c.phase))
	meta.member(metaStage, inv.Input)
	c.meta = meta.b
	return c, nil
}

// params returns the whole for one try.
func (c *call) params(attempt int, timeout time.Duration) jsonx.Value {
	b := make([]byte, 0, len(c.head)+len(c.meta)+96)
	b = append(b, c.head...)
	b = append(b, `,"timeoutMs":`...)
	b = strconv.AppendInt(b, max(timeout.Milliseconds(), 1), 10)
	b = append(b, c.meta...)
	b = append(b, `,"`+metaAttempt+`":`...)
	b = strconv.AppendInt(b, int64(attempt), 10)
	return append(b, "}}"...)
}

type params struct{ b []byte }

func (p *params) text(s string) {
	// AppendQuote writes U+FFFD for what is no UTF-8 and goes on; its error says no more than that.
	p.b, _ = jsonx.AppendQuote(p.b, s)
}

func (p *params) member(name, value string) {
	p.b = append(p.b, ',')
	p.text(name)
	p.b = append(p.b, ':')
	p.text(value)
}

type callContext struct {
	json   []byte
	method string
}

// contextOf rebuilds the context of the time from the event and its context item.
func contextOf(e *schemas.Event, about []byte) (callContext, error) {
	var open schemas.Context
	if len(about) > 0 {
		if err := jsonx.Unmarshal(about, &open); err != nil {
			return callContext{}, fmt.Errorf("%w: context: %w", ErrPayload, err)
		}
	}
	out := chain.Context{
		Principal: chain.Principal{Type: open.PrincipalType, ID: open.Principal, Claims: open.Claims},
		Timestamp: e.Time.Std(), SessionID: open.SessionID,
	}
	if out.Principal.Type == "" && e.Actor != nil {
		out.Principal.Type = e.Actor.Type
	}
	if out.Principal.Type == "" {
		out.Principal.Type = "anonymous"
	}
	if c := e.Correlation; c != nil {
		out.TraceID, out.SpanID = c.TraceID, c.SpanID
	}
	text, err := jsonx.Marshal(out)
	if err != nil {
		return callContext{}, fmt.Errorf("%w: context: %w", ErrPayload, err)
	}
	return callContext{json: text, method: open.Method}, nil
}
