package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"
	"uuid"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Message is a payload on its way: the params that are sent, or the result that comes back.
type Message struct {
	Payload jsonx.Value
	Changed bool // an interceptor changed it: typed values that it was made of do not hold
}

// Next makes the request, with the params that it is given, and returns the result; a nil result without an error ends
// the exchange without a response phase.
type Next func(ctx context.Context, params Message) (result jsonx.Value, err error)

// exchange is the life of one request.
type exchange struct {
	*Runner
	req     *Request
	plan    *chain.Plan
	started time.Time
	sent    time.Time
	ids     *schemas.Correlation
	actor   *schemas.Actor
	shed    bool // the journal did not take the request event, on purpose
	ended   bool
}

// Do takes a request through the plan, makes it, and takes the result through the plan. The error is a
// *[chain.DeniedError] when an interceptor ended it, wraps [ErrNotRecorded] when the recorder did, is the cause of ctx
// when that ended, and else is what next returned.
func (r *Runner) Do(ctx context.Context, req *Request, next Next) (Message, error) {
	x := &exchange{Runner: r, req: req, plan: r.opts.Plan(), started: time.Now()}
	x.identify()
	params, err := x.begin(ctx)
	if err != nil {
		return Message{}, err
	}
	defer func() {
		if !x.ended { // next panicked; who recovers it knows nothing of the record
			_ = x.end(ctx, x.failed(), schemas.Detail{Error: "the request panicked"}, nil)
		}
	}()
	x.sent = time.Now()
	result, err := next(ctx, params)
	if err != nil {
		return Message{}, x.fail(ctx, err)
	}
	return x.settle(ctx, result)
}

// begin runs the request phase and records it.
func (x *exchange) begin(ctx context.Context) (Message, error) {
	rec := x.newRecord(schemas.KindRequest, schemas.PhaseRequest)
	payload := x.req.Params
	if payload == nil {
		payload = jsonx.Value("{}")
	}
	res := x.run(ctx, rec, payload)
	rec.Event.Decision = x.decision(&res)
	res.AddBody(rec, payload, nil)
	chain.AddDetail(rec, detailOf(&res))
	x.addContext(rec)
	if err := x.record(ctx, rec); err != nil {
		return Message{}, err
	}
	x.shed = rec.Shed
	if err := x.verdict(ctx, &res); err != nil {
		return Message{}, x.conclude(ctx, &res, err)
	}
	return Message{res.Payload, res.Modified}, nil
}

// settle runs the response phase and records the outcome.
func (x *exchange) settle(ctx context.Context, result jsonx.Value) (Message, error) {
	rec := x.newRecord(schemas.KindOutcome, schemas.PhaseResponse)
	res := notRun(result)
	if result != nil {
		res = x.run(ctx, rec, result)
	}
	d := x.decision(&res)
	d.Outcome = schemas.OutcomeAllowed
	d.IsError = x.req.Method == "tools/call" && wire.IsToolError(result)
	detail := detailOf(&res)
	denied := x.verdict(ctx, &res)
	switch {
	case denied != nil:
		d.Outcome, d.ErrorCode = outcomeOf(denied)
	case res.Modified && x.req.Accept != nil:
		if denied = x.req.Accept(res.Payload); denied != nil {
			d.Outcome, d.ErrorCode, detail.Error = schemas.OutcomeError, wire.CodeInternal, denied.Error()
		}
	}
	res.AddBody(rec, result, nil)
	if err := x.finish(ctx, rec, d, detail); err != nil {
		return Message{}, err
	}
	if denied != nil {
		return Message{}, denied
	}
	return Message{res.Payload, res.Modified}, nil
}

// fail records that there is no result.
func (x *exchange) fail(ctx context.Context, cause error) error {
	d := x.failed()
	detail := schemas.Detail{Error: cause.Error()}
	var body jsonx.Value
	rpc, answered := errors.AsType[*jsonrpc.Error](cause)
	switch {
	case answered:
		d.ErrorCode = int(rpc.Code)
		body, _ = jsonx.Marshal(struct {
			Code    int64       `json:"code"`
			Message string      `json:"message"`
			Data    jsonx.Value `json:"data,omitzero"`
		}{rpc.Code, rpc.Message, rpc.Data})
	case ctx.Err() != nil:
		d.Outcome, d.ErrorCode = schemas.OutcomeCancelled, 0
	}
	if err := x.end(ctx, d, detail, body); err != nil {
		return errors.Join(err, cause)
	}
	return cause
}

func (x *exchange) failed() *schemas.Decision {
	res := notRun(nil)
	d := x.decision(&res)
	d.Outcome, d.ErrorCode = schemas.OutcomeError, wire.CodeInternal
	return d
}

// conclude records the outcome of an exchange whose request phase ended it.
func (x *exchange) conclude(ctx context.Context, res *chain.Result, why error) error {
	d := x.decision(res)
	d.Outcome, d.ErrorCode = outcomeOf(why)
	detail := schemas.Detail{}
	if res.Denial != nil {
		detail.Reason = res.Denial.Reason
	}
	if err := x.end(ctx, d, detail, nil); err != nil {
		return errors.Join(err, why)
	}
	return why
}

// end records an outcome without a response phase.
func (x *exchange) end(ctx context.Context, d *schemas.Decision, detail schemas.Detail, body jsonx.Value) error {
	rec := x.newRecord(schemas.KindOutcome, schemas.PhaseResponse)
	if body != nil {
		rec.Add(schemas.RoleBefore, 0, body)
	}
	return x.finish(ctx, rec, d, detail)
}

func (x *exchange) finish(ctx context.Context, rec *schemas.Record, d *schemas.Decision, detail schemas.Detail) error {
	x.ended = true
	now := time.Now()
	d.TotalUS, d.StartedAt = now.Sub(x.started).Microseconds(), schemas.At(x.started)
	if !x.sent.IsZero() {
		d.BackendUS = max(0, now.Sub(x.sent).Microseconds()-d.ChainUS)
	}
	rec.Event.Decision, rec.Shed = d, x.shed
	chain.AddDetail(rec, detail)
	return x.record(context.WithoutCancel(ctx), rec) // who asked may be gone; what happened is recorded nevertheless
}

// verdict is the error that a run ends the exchange with; nil: it goes on.
func (x *exchange) verdict(ctx context.Context, res *chain.Result) error {
	if err := res.Err(); err != nil {
		return err
	}
	switch res.Status {
	case schemas.StatusSuccess, schemas.StatusNotRun:
		return nil
	case schemas.StatusCancelled:
		return context.Cause(ctx)
	default: // a run that neither succeeded nor says why is a block
		return &chain.DeniedError{
			Status: res.Status, Type: "gateway", Code: wire.CodeInternal, Message: "blocked by the interceptors", Reason: string(res.Status),
		}
	}
}

func outcomeOf(why error) (schemas.Outcome, int) {
	if denied, ok := errors.AsType[*chain.DeniedError](why); ok {
		return schemas.OutcomeDenied, denied.Code
	}
	return schemas.OutcomeCancelled, 0
}

// run takes a payload through the plan, if it is due.
func (x *exchange) run(ctx context.Context, rec *schemas.Record, payload jsonx.Value) chain.Result {
	op := rec.Event.Operation
	if !x.chained(x.plan, x.req.Method, op.Phase) {
		return notRun(payload)
	}
	rec.Event.ID = uuid.NewV7()
	in := chain.Input{
		Interception: rec.Event.ID, Event: x.req.Method, Phase: op.Phase, Direction: op.Direction, Payload: payload,
		Tenant: x.opts.Tenant, Target: x.target(),
		Context: chain.Context{
			Principal: x.req.Principal, TraceID: x.ids.TraceID, SpanID: x.ids.SpanID, Timestamp: x.started, SessionID: x.req.Session,
		},
	}
	res := x.plan.Run(ctx, in)
	if x.opts.Recorder == nil {
		x.opts.Background.Submit(ctx, x.plan, &in, &res)
	}
	rec.Event.Invocations = res.Invocations
	return res
}

func notRun(payload jsonx.Value) chain.Result {
	return chain.Result{Status: schemas.StatusNotRun, Payload: payload}
}

// record hands a record over; without a recorder there is nothing to do.
func (x *exchange) record(ctx context.Context, rec *schemas.Record) error {
	if x.opts.Recorder == nil {
		return nil
	}
	if err := x.opts.Recorder.Record(ctx, rec); err != nil {
		x.ended = true
		return fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	return nil
}
