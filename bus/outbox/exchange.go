package outbox

import (
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// openExchange is what is known of an exchange whose outcome is still to come: enough to write one
// for it. The strings are shared with the request's record, everything else is a copy.
type openExchange struct {
	Correlation schemas.Correlation `json:"correlation"`
	Actor       schemas.Actor       `json:"actor,omitzero"`
	Operation   schemas.Operation   `json:"operation,omitzero"`
	Gateway     string              `json:"gateway,omitzero"`
	Since       schemas.Time        `json:"since"`
}

// exchanges is the set of open exchanges. Not for concurrent use.
type exchanges struct {
	open map[uuid.UUID]*openExchange
	free []*openExchange
}

const keepFree = 1024

// saw follows a recorded event.
func (x *exchanges) saw(e *schemas.Event) {
	if e.Correlation == nil {
		return
	}
	switch e.Kind {
	case schemas.KindRequest:
		x.add(e)
	case schemas.KindOutcome:
		x.end(e.Correlation.Exchange)
	default: // neither begins nor ends an exchange
	}
}

func (x *exchanges) add(e *schemas.Event) {
	var o *openExchange
	if n := len(x.free); n > 0 {
		o, x.free = x.free[n-1], x.free[:n-1]
	} else {
		o = new(openExchange)
	}
	*o = openExchange{Correlation: *e.Correlation, Gateway: e.Gateway, Since: e.Time}
	if e.Actor != nil {
		o.Actor = *e.Actor
	}
	if e.Operation != nil {
		o.Operation = *e.Operation
	}
	if x.open == nil {
		x.open = make(map[uuid.UUID]*openExchange)
	}
	x.open[e.Correlation.Exchange] = o
}

func (x *exchanges) end(id uuid.UUID) {
	o, ok := x.open[id]
	if !ok {
		return
	}
	delete(x.open, id)
	if len(x.free) < keepFree {
		x.free = append(x.free, o)
	}
}

// list returns the open exchanges by age of their ids, so that two runs declare them in one order.
func (x *exchanges) list() []openExchange {
	return sortedExchanges(x.open)
}

// outcome is the event that ends the exchange in place of its gateway: of the response phase, as every
// outcome, though no interceptor ran in it.
func (o *openExchange) outcome(as schemas.Outcome, cause string, now schemas.Time) schemas.Event {
	e := schemas.Event{
		Kind:        schemas.KindOutcome,
		Gateway:     o.Gateway,
		Correlation: &o.Correlation,
		Decision: &schemas.Decision{
			Status:    schemas.StatusNotRun,
			Outcome:   as,
			Cause:     cause,
			StartedAt: o.Since,
			TotalUS:   max(0, int64(now-o.Since)),
		},
	}
	if o.Actor.Type != "" {
		e.Actor = &o.Actor
	}
	if o.Operation.Event != "" {
		op := o.Operation
		op.Phase, op.Direction = schemas.PhaseResponse, opposite(op.Direction)
		e.Operation = &op
	}
	return e
}

// opposite is the direction of the response to a request of direction d.
func opposite(d schemas.Direction) schemas.Direction {
	switch d {
	case schemas.Sending:
		return schemas.Receiving
	case schemas.Receiving:
		return schemas.Sending
	}
	return d
}
