package gateway

import (
	"bytes"
	"context"
	"sync"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// From protocol 2026-07-28 on a server asks its client by a result with inputRequests, and gets the
// answers as inputResponses in the params of the retried request. Each entry is an exchange of its
// own, reverse, under the exchange that carried it: its request phase runs when the result leaves,
// its response phase when the retry comes. In between it is parked: nobody waits for it.

// maxParked bounds the requests of a server to its clients that wait for a retry; beyond it the
// oldest ends without an answer.
const maxParked = 1_024

// ask takes the requests in a result through their request phase. The result comes back with what
// the plan made of them; a verdict with an outcome means that one was blocked, and the result with it.
func (x *exchange) ask(ctx context.Context, result jsonx.Value) (jsonx.Value, verdict) {
	requests, ok := jsonx.Lookup(result, "inputRequests")
	if !ok {
		return result, verdict{}
	}
	changed := requests
	var admitted []*exchange
	for m := range jsonx.Members(requests) {
		inner, err := x.inner(m)
		if err != nil {
			continue // not a request: the client will refuse it
		}
		begun, a := x.lane.begin(ctx, inner)
		if begun != nil {
			var out wire.Message
			if out, a, ok = begun.admit(ctx); ok {
				admitted = append(admitted, begun)
				if !bytes.Equal(out.Params, inner.msg.Params) {
					entry := wire.WithMember(m.Value, "params", out.Params)
					changed = wire.WithMember(changed, string(m.Name), entry)
				}
				continue
			}
		}
		for _, sibling := range admitted {
			sibling.interrupt(ctx, errCancelled)
		}
		return nil, blockedBy(a)
	}
	for _, a := range admitted {
		x.lane.park(ctx, a, roundKey(x.ids.StateOut, a.msg.ID))
	}
	if !bytes.Equal(changed, requests) {
		return wire.WithMember(result, "inputRequests", changed), verdict{}
	}
	return result, verdict{}
}

// inner is the arrival of one entry of inputRequests; its key serves as id.
func (x *exchange) inner(m jsonx.Member) (arrival, error) {
	method, _ := wire.MemberString(m.Value, "method")
	params, _ := jsonx.Lookup(m.Value, "params")
	return x.innerOf(string(m.Name), method, params)
}

func (x *exchange) innerOf(key, method string, params jsonx.Value) (arrival, error) {
	id, err := jsonx.AppendQuote(nil, key)
	if err != nil {
		return arrival{}, err
	}
	msg, err := wire.Parse(wire.NewRequest(id, method, params), x.lane.limits(false))
	if err != nil {
		return arrival{}, err
	}
	in := x.arrival
	in.msg, in.reverse, in.scope, in.reply = msg, true, false, nil
	in.parent, in.call, in.version = x.id, x.call, x.version
	return in, nil
}

// replies takes the client's answers in the params of a retried request through their response
// phase.
func (x *exchange) replies(ctx context.Context, params jsonx.Value) (jsonx.Value, verdict) {
	responses, ok := jsonx.Lookup(params, "inputResponses")
	if !ok {
		return params, verdict{}
	}
	changed := responses
	for m := range jsonx.Members(responses) {
		inner := x.parked(ctx, m)
		if inner == nil {
			continue // no answer to anything that is known: the server will refuse it
		}
		msg, err := wire.Parse(wire.NewResponse(inner.msg.ID, m.Value), x.lane.limits(false))
		if err != nil {
			return nil, blockedBy(inner.malformed(ctx, m.Value, "not an answer"))
		}
		a := inner.settle(ctx, msg)
		if a.raw == nil || a.code != 0 {
			return nil, blockedBy(a)
		}
		if !a.changed {
			continue
		}
		out, err := wire.Parse(a.raw, x.lane.limits(false))
		if err != nil {
			return nil, blockedBy(answer{})
		}
		changed = wire.WithMember(changed, string(m.Name), out.Result)
	}
	if !bytes.Equal(changed, responses) {
		return wire.WithMember(params, "inputResponses", changed), verdict{}
	}
	return params, verdict{}
}

// parked finds the exchange that an answer belongs to. Where it is not known any more (another
// gateway, a restart) one is made by the form of the answer, so that none goes past the plan.
func (x *exchange) parked(ctx context.Context, m jsonx.Member) *exchange {
	id, err := jsonx.AppendQuote(nil, string(m.Name))
	if err != nil {
		return nil
	}
	if inner := x.lane.rounds.take(roundKey(x.stateIn, id)); inner != nil {
		return inner
	}
	in, err := x.innerOf(string(m.Name), methodOfAnswer(m.Value), nil)
	if err != nil {
		return nil
	}
	inner, _ := x.lane.begin(ctx, in)
	if inner == nil || !inner.note(ctx) {
		return nil
	}
	return inner
}

func methodOfAnswer(result jsonx.Value) string {
	for m := range jsonx.Members(result) {
		switch string(m.Name) {
		case "action":
			return "elicitation/create"
		case "roots":
			return "roots/list"
		case "role", "model":
			return "sampling/createMessage"
		}
	}
	return eventOther
}

// note journals the request event of an exchange whose request was not seen.
func (x *exchange) note(ctx context.Context) bool {
	rec := x.newRecord(schemas.KindRequest, schemas.PhaseRequest)
	rec.Event.Decision = x.decision(&chain.Result{Status: schemas.StatusNotRun}, verdict{})
	x.addContext(rec)
	if cause := x.lane.record(ctx, rec); cause != "" {
		x.close()
		return false
	}
	x.shed = rec.Shed
	return x.forwarded() == nil
}

// blockedBy is the verdict on a message of which a part was refused.
func blockedBy(a answer) verdict {
	rpc := &wire.RPCError{Code: wire.CodeInternal, Message: "a part of the message was refused"}
	if msg, err := wire.Parse(a.raw, wire.Limits{Lenient: true}); err == nil && msg.RPCError() != nil {
		rpc = msg.RPCError()
	}
	return verdict{outcome: schemas.OutcomeDenied, cause: causeRound, rpc: rpc}
}

func roundKey(state seal.Pseudonym, id jsonx.Value) string { return string(state) + string(id) }

// park keeps an exchange for the retry.
func (l *lane) park(ctx context.Context, x *exchange, key string) {
	l.registry.park(x)
	if old := l.rounds.put(key, x); old != nil {
		old.fail(ctx, causeNoAnswer, "no retry came")
	}
}

// roundTable holds parked exchanges, the oldest of which makes room.
type roundTable struct {
	mu    sync.Mutex // guards what follows
	byKey map[string]*exchange
	order []string // ring of insertion
	next  int
}

func newRoundTable() *roundTable { return &roundTable{byKey: make(map[string]*exchange)} }

// put returns the exchange that had to make room.
func (t *roundTable) put(key string, x *exchange) *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.byKey[key]; ok {
		t.byKey[key] = x
		return old
	}
	t.byKey[key] = x
	if len(t.order) < maxParked {
		t.order = append(t.order, key)
		return nil
	}
	old := t.byKey[t.order[t.next]]
	delete(t.byKey, t.order[t.next])
	t.order[t.next] = key
	t.next = (t.next + 1) % maxParked
	return old
}

func (t *roundTable) take(key string) *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.byKey[key]
	delete(t.byKey, key)
	return x
}

// carry takes the requests in a result through their request phase, on what the exchange's own plan
// made of the result.
func (x *exchange) carry(ctx context.Context, msg wire.Message, res *chain.Result) verdict {
	allowed := verdict{outcome: schemas.OutcomeAllowed}
	if x.inForce() != nil && msg.Flags&(wire.FlagDuplicates|wire.FlagInvalidUTF8) != 0 {
		return verdict{outcome: schemas.OutcomeError, cause: causeMalformed, rpc: malformedAnswer("duplicate names or invalid UTF-8")}
	}
	before := current(res, msg.Result)
	out, v := x.ask(ctx, before)
	if v.outcome != "" {
		return v
	}
	if !bytes.Equal(out, before) {
		res.Modified, res.Payload = true, out
	}
	return allowed
}

// current is the payload as it goes on after a run.
func current(res *chain.Result, payload jsonx.Value) jsonx.Value {
	if res.Modified {
		return res.Payload
	}
	return payload
}
