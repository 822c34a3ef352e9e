package gateway

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// exchange is the life of one request, whatever carries it:
//
//	open ── admit ──▶ forwarded ── settle, or fail ──▶ ended
//	          │           └──── interrupt ───────────▶ ended
//	          └─ denied, malformed, cancelled ───────▶ ended
//
// One goroutine at a time owns the right to end it; the outcome is recorded exactly once.
type exchange struct {
	arrival
	lane     *lane
	plan     Plan // for both phases: the one in force at arrival, until resolve; then covered by mu, see inForce
	release  func()
	rules    *Rules
	facts    facts
	id       uuid.UUID
	call     uuid.UUID
	round    *call          // the call that this is another round of; nil: none, or not known
	stateIn  seal.Pseudonym // of the state that the request brought
	started  time.Time
	ids      *schemas.Correlation
	actor    *schemas.Actor
	op       schemas.Operation
	forwards jsonx.Value // the params that are forwarded
	shed     bool        // the journal did not take the request event, on purpose

	traceMade bool // by the gateway: the request brought none

	mu        sync.Mutex              // guards what follows
	cancel    context.CancelCauseFunc // of the phase that runs; nil: none
	state     state
	stopCause error // why it was interrupted; nil: it was not
	sentAt    time.Time
}

type state uint8

const (
	stateAdmitting state = iota // the request phase runs
	stateForwarded              // the other side has it
	stateSettling               // the response phase runs
	stateEnded
)

// Reasons for an interrupt.
var (
	errCancelled    = errors.New("cancelled by the caller")
	errStopped      = errors.New("the gateway stopped")
	errSessionEnded = errors.New("the session ended")
)

// begin makes an exchange of an arrival and enters it everywhere. When the gateway cannot take it,
// it is recorded as refused, and the exchange is nil.
func (l *lane) begin(ctx context.Context, in arrival) (*exchange, answer) {
	x := l.newExchange(in)
	err := l.registry.enter(x)
	if err == nil && in.scope {
		if err = in.session.enter(x); err != nil {
			l.registry.leave(x)
		}
	}
	if err == nil {
		if in.msg.Method == methodListen {
			l.registry.park(x) // it is open for as long as its client listens
		}
		return x, answer{}
	}
	cause, rpc, status := refusalOf(err)
	a := x.refuse(ctx, verdict{outcome: schemas.OutcomeDenied, cause: cause, rpc: rpc})
	if a.status == 0 {
		a.status, a.retry = status, status == 503
	}
	return nil, a
}

func (l *lane) newExchange(in arrival) *exchange {
	x := &exchange{arrival: in, lane: l, plan: l.plan(), rules: l.rules.Load(), id: uuid.NewV7(), started: time.Now(), facts: factsOf(&in.msg)}
	x.call = x.id
	if in.call != uuid.Nil() {
		x.call = in.call
	}
	if p := &x.caller.Principal; p.ID == "" && (p.Type == "" || p.Type == "anonymous") && x.rules.Principal.Type != "" {
		x.caller = Caller{Principal: x.rules.Principal} // nobody has verified it
	}
	x.identify()
	return x
}

// admit runs the request phase and journals it. Either the message to forward comes back, or the
// answer that the caller gets instead and forward is false.
func (x *exchange) admit(ctx context.Context) (msg wire.Message, a answer, forward bool) {
	ctx, done := x.arm(ctx)
	defer done()
	rec := x.newRecord(schemas.KindRequest, schemas.PhaseRequest)
	payload := x.msg.Params
	res := chain.Result{Status: schemas.StatusNotRun}
	v := x.resolve(ctx)
	if v.outcome == "" && x.chained(schemas.PhaseRequest) {
		if payload == nil || string(payload) == "null" {
			payload = jsonx.Value("{}")
		}
		res = x.run(ctx, rec, payload)
	}
	if v.outcome == "" {
		v = verdictOf(&res, x.interrupted())
	}
	if v.outcome == "" && !x.reverse {
		x.steady(payload, &res)
	}
	if v.outcome == "" && x.facts.answers {
		var out jsonx.Value
		if out, v = x.replies(ctx, current(&res, payload)); v.outcome == "" && !bytes.Equal(out, current(&res, payload)) {
			res.Modified, res.Payload = true, out
		}
	}
	if v.outcome == "" {
		x.traceMeta(rec, payload, &res)
	}
	addBody(rec, payload, &res, x.msg.Flags)
	rec.Event.Decision = x.decision(&res, verdict{})
	addDetail(rec, &res, verdict{})
	x.addContext(rec)
	if cause := x.lane.record(ctx, rec); cause != "" {
		return msg, x.vanish(cause), false
	}
	x.shed = rec.Shed
	if v.outcome != "" {
		return msg, x.conclude(ctx, v), false
	}
	if a, ok := x.exposed(ctx); ok {
		return msg, a, false
	}
	x.forwards = current(&res, payload)
	if err := x.forwarded(); err != nil {
		return msg, x.conclude(ctx, verdictOfInterrupt(err)), false
	}
	if res.Modified {
		return x.msg.WithParams(res.Payload), answer{}, true
	}
	return x.msg, answer{}, true
}

// settle runs the response phase on what the other side answered, and journals the outcome. An
// answer with a nil raw means that nothing goes to the caller.
func (x *exchange) settle(ctx context.Context, msg wire.Message) answer {
	if !x.claim() { // answered before, or cancelled
		in := x.arrival
		in.msg, in.reverse, in.parent = msg, !x.reverse, x.id
		x.lane.answerStray(context.WithoutCancel(ctx), in)
		return answer{}
	}
	if msg.Kind == wire.KindError {
		rpc := msg.RPCError()
		v := verdict{outcome: schemas.OutcomeError, rpc: rpc}
		rec := x.outcomeRecord(&chain.Result{Status: schemas.StatusNotRun}, v)
		rec.Add(schemas.RoleBefore, 0, msg.Error)
		a := answer{raw: msg.Raw, code: rpc.Code}
		return x.end(ctx, rec, a)
	}
	x.lane.learn(x, msg.Result)
	ctx, done := x.arm(ctx)
	defer done()
	res := chain.Result{Status: schemas.StatusNotRun}
	v := verdict{outcome: schemas.OutcomeAllowed}
	rec := x.newRecord(schemas.KindOutcome, schemas.PhaseResponse)
	switch due := x.chained(schemas.PhaseResponse); {
	case due && msg.Flags&(wire.FlagDuplicates|wire.FlagInvalidUTF8) != 0:
		v = verdict{outcome: schemas.OutcomeError, cause: causeMalformed, rpc: malformedAnswer("duplicate names or invalid UTF-8")}
	case due:
		res = x.run(ctx, rec, msg.Result)
		if other := verdictOf(&res, x.interrupted()); other.outcome != "" {
			v = other
		}
		if res.Modified {
			res.Payload = narrowCache(msg.Result, keepMember(msg.Result, res.Payload, "requestState"))
		}
	}
	if v.outcome == schemas.OutcomeAllowed && !x.reverse && bytes.Contains(msg.Result, []byte(`"inputRequests"`)) {
		v = x.carry(ctx, msg, &res)
	}
	if v.outcome == schemas.OutcomeAllowed {
		x.amend(rec, msg.Result, &res)
	}
	addBody(rec, msg.Result, &res, msg.Flags)
	v.isError = x.msg.Method == methodToolsCall && wire.IsToolError(msg.Result)
	x.fillOutcome(rec, &res, v)
	switch {
	case v.outcome == schemas.OutcomeCancelled || v.outcome == schemas.OutcomeStopped:
		return x.end(ctx, rec, x.interruptAnswer(v))
	case v.outcome != schemas.OutcomeAllowed:
		return x.end(ctx, rec, x.refusal(&v))
	case res.Modified:
		out := msg.WithResult(res.Payload)
		return x.end(ctx, rec, answer{raw: out.Raw, changed: true})
	}
	return x.end(ctx, rec, answer{raw: msg.Raw})
}

// malformed ends a forwarded exchange whose answer could not be understood; raw is what came.
func (x *exchange) malformed(ctx context.Context, raw []byte, reason string) answer {
	if !x.claim() {
		return answer{}
	}
	v := verdict{outcome: schemas.OutcomeError, cause: causeMalformed, rpc: malformedAnswer(reason)}
	rec := x.outcomeRecord(&chain.Result{Status: schemas.StatusNotRun}, v)
	addOdd(rec, raw)
	return x.end(ctx, rec, errorAnswer(x.msg.ID, v.rpc))
}

// fail ends a forwarded exchange for which no answer is to be had.
func (x *exchange) fail(ctx context.Context, cause, text string) answer {
	if !x.claim() {
		return answer{}
	}
	return x.conclude(ctx, verdict{
		outcome: schemas.OutcomeError, cause: cause, text: text,
		rpc: &wire.RPCError{Code: wire.CodeInternal, Message: "no answer from the server: " + cause},
	})
}

// interrupt ends the exchange, or makes its owner end it. It reports whether the other side has
// the request, so that it may be told.
func (x *exchange) interrupt(ctx context.Context, why error) (wasForwarded bool, a answer) {
	x.mu.Lock()
	was := x.state
	if was == stateEnded {
		x.mu.Unlock()
		return false, answer{}
	}
	if x.stopCause == nil {
		x.stopCause = why
	}
	if was == stateForwarded {
		x.state = stateSettling // ours to end
	}
	if x.cancel != nil {
		x.cancel(why)
	}
	x.mu.Unlock()
	if was == stateForwarded {
		return true, x.conclude(ctx, verdictOfInterrupt(why))
	}
	return was == stateSettling, answer{}
}

// refuse records an exchange that never was open: both its events at once.
func (x *exchange) refuse(ctx context.Context, v verdict) answer {
	rec := x.newRecord(schemas.KindRequest, schemas.PhaseRequest)
	res := chain.Result{Status: schemas.StatusNotRun}
	addBody(rec, x.msg.Params, &res, x.msg.Flags)
	switch x.msg.Kind {
	case wire.KindInvalid:
		addOdd(rec, x.msg.Raw)
	case wire.KindResponse:
		addBody(rec, x.msg.Result, &res, x.msg.Flags)
	case wire.KindError:
		addBody(rec, x.msg.Error, &res, x.msg.Flags)
	default:
	}
	rec.Event.Decision = x.decision(&res, verdict{})
	x.addContext(rec)
	if cause := x.lane.record(ctx, rec); cause != "" {
		return x.vanish(cause)
	}
	x.shed = rec.Shed
	return x.conclude(ctx, v)
}

// conclude journals the outcome of an exchange that ends without a result, and returns the answer.
func (x *exchange) conclude(ctx context.Context, v verdict) answer {
	res := v.result
	if res == nil {
		res = &chain.Result{Status: schemas.StatusNotRun}
	}
	rec := x.outcomeRecord(res, v)
	if v.rpc == nil {
		return x.end(ctx, rec, x.interruptAnswer(v))
	}
	return x.end(ctx, rec, x.refusal(&v))
}

func (x *exchange) interruptAnswer(v verdict) answer {
	if v.outcome == schemas.OutcomeCancelled {
		return answer{} // MCP: no answer to a cancelled request
	}
	a := errorAnswer(x.msg.ID, &wire.RPCError{Code: wire.CodeInternal, Message: "gateway is stopping"})
	a.status = 503
	return a
}

// end journals the outcome and closes the exchange everywhere. The answer goes out only if the
// outcome is recorded.
func (x *exchange) end(ctx context.Context, rec *schemas.Record, a answer) answer {
	rec.Shed = x.shed
	x.notePeer(rec)
	// The caller may be gone; what happened is recorded nevertheless.
	cause := x.lane.record(context.WithoutCancel(ctx), rec)
	x.close()
	if cause != "" {
		a = unrecorded(x.msg.ID, cause)
	}
	a.mine = true
	return a
}

// vanish closes an exchange whose request event was not recorded: it never was.
func (x *exchange) vanish(cause string) answer {
	x.close()
	a := unrecorded(x.msg.ID, cause)
	a.mine = true
	return a
}

// answer hands the answer to whoever waits for it, if this call is the one that ended the exchange.
// A nil raw tells that no answer will come.
func (x *exchange) answer(a answer) {
	if a.mine && x.reply != nil {
		x.reply(a.raw)
	}
}

func (x *exchange) close() {
	x.mu.Lock()
	x.state = stateEnded
	release := x.release
	x.release = nil
	x.mu.Unlock()
	if release != nil {
		release()
	}
	if x.scope {
		x.session.leave(x)
	}
	x.lane.registry.leave(x)
}

// adopt gives the exchange the session that it made (initialize).
func (x *exchange) adopt(s *session) {
	ids := *x.ids // the request event keeps its own
	ids.Session = s.pseudonym
	x.ids, x.session = &ids, s
}

func (x *exchange) chained(phase schemas.Phase) bool {
	plan := x.inForce()
	return plan != nil && !wire.NeverChained(x.msg.Method) && x.rules.chains(x.msg.Method) && plan.Matches(x.msg.Method, phase)
}
