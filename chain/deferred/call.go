package deferred

import (
	"context"
	"errors"
	"fmt"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// call is one invocation, rebuilt as the interceptor would have got it in the path.
type call struct {
	input    chain.Input
	inv      *schemas.Invocation
	exchange uuid.UUID // zero: not known
}

// newCall rebuilds a call. about is the JSON of a [schemas.Context], nil where that is gone.
func newCall(e *schemas.Event, inv *schemas.Invocation, payload, about []byte) (*call, error) {
	if e.Operation == nil {
		return nil, fmt.Errorf("%w: the event has no operation", ErrPayload)
	}
	if _, err := jsonx.Verify(payload, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	c := &call{inv: inv, input: chain.Input{
		Interception: e.ID, Event: e.Operation.Event, Phase: e.Operation.Phase, Direction: e.Operation.Direction, Payload: payload,
	}}
	var open schemas.Context
	if len(about) > 0 {
		if err := jsonx.Unmarshal(about, &open); err != nil {
			return nil, fmt.Errorf("%w: context: %w", ErrPayload, err)
		}
	}
	if open.Method != "" && c.input.Event == "other" {
		c.input.Event = open.Method // what the event could not seal in clear
	}
	c.input.Context = contextOf(e, &open)

	if e.Correlation != nil {
		c.exchange = e.Correlation.Exchange
	}
	return c, nil
}

// contextOf rebuilds the context of the time.
func contextOf(e *schemas.Event, open *schemas.Context) chain.Context {
	c := chain.Context{
		Principal: chain.Principal{Type: open.PrincipalType, ID: open.Principal, Claims: open.Claims},
		Timestamp: e.Time.Std(), SessionID: open.SessionID,
	}
	if op := e.Operation; op != nil {
		if c.Server = op.Server; op.Phase == schemas.PhaseResponse {
			c.Target = open.Target
		}
	}
	if c.Principal.Type == "" && e.Actor != nil {
		c.Principal.Type = e.Actor.Type
	}
	if c.Principal.Type == "" {
		c.Principal.Type = "anonymous"
	}
	if e.Correlation != nil {
		c.TraceID, c.SpanID = e.Correlation.TraceID, e.Correlation.SpanID
	}
	return c
}

// metaFor returns _meta for one try.
func (c *call) metaFor(attempt int) jsonx.Value {
	return chain.AppendMeta(make([]byte, 0, 256), c.inv, c.exchange, c.input.Phase, attempt)
}

// guard stands before an interceptor server for one try. It keeps an answer that is too large from
// being read, and tells a server that was not there from one that failed.
type guard struct {
	next chain.Caller
	most int // bytes of an answer
	lost bool
}

// Call implements chain.Caller.
func (g *guard) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	answer, err := g.next.Call(ctx, method, params)
	g.lost = errors.Is(err, chain.ErrLost)
	if err == nil && len(answer) > g.most {
		return nil, &wire.ParseError{Code: wire.CodeInvalidRequest, Reason: fmt.Sprintf("answer too large: at most %d bytes", g.most), Offset: -1, Err: ErrTooLarge}
	}
	return answer, err
}
