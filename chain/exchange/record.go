package exchange

import (
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// eventOther stands in sealed events for a method that is not known: its name may come from outside.
const eventOther = "other"

// identify fills what both events of the exchange share.
func (x *exchange) identify() {
	meta := wire.MetaOf(x.req.Params)
	parent := meta.Traceparent
	if parent == "" {
		parent = x.req.Traceparent
	}
	traceID, spanID := wire.Trace(parent)
	id := uuid.NewV7()
	x.ids = &schemas.Correlation{
		Exchange: id, Call: id, Session: x.pseudonym("session", x.req.Session),
		RequestID: x.pseudonym("request", string(x.req.ID)), TraceID: traceID, SpanID: spanID,
		ProtocolVersion: wire.SealedVersion(x.req.Protocol), Transport: x.req.Transport,
	}
	x.actor = &schemas.Actor{
		Type: actorType(x.req.Principal.Type), Pseudonym: x.pseudonym("principal", x.req.Principal.ID), VerifiedBy: x.req.VerifiedBy,
	}
}

func (x *exchange) pseudonym(domain, name string) seal.Pseudonym {
	if x.opts.Recorder == nil {
		return ""
	}
	return x.opts.Key.Pseudonym(domain, name)
}

func actorType(t string) string {
	if t == "user" || t == "service" {
		return t
	}
	return "anonymous"
}

// target is the tool, prompt or resource that is asked for.
func (x *exchange) target() string {
	member := wire.TargetMember(x.req.Method)
	if member == "" {
		return ""
	}
	name, _ := wire.MemberString(x.req.Params, member)
	return name
}

// newRecord begins an event of the exchange.
func (x *exchange) newRecord(kind schemas.Kind, phase schemas.Phase) *schemas.Record {
	op := schemas.Operation{
		Event: eventOther, Phase: phase, Direction: x.direction(phase), Server: x.opts.Server,
		TargetRef: x.pseudonym("target", x.target()),
	}
	if wire.KnownMethod(x.req.Method) {
		op.Event = x.req.Method
	}
	return &schemas.Record{Event: schemas.Event{
		Kind: kind, Tenant: x.opts.Tenant, Gateway: x.opts.Gateway, Correlation: x.ids, Actor: x.actor, Operation: &op,
	}}
}

// decision is the sealed word on a run.
func (x *exchange) decision(res *chain.Result) *schemas.Decision {
	d := res.Decision()
	if d.PlanDigest.IsZero() && x.plan != nil {
		d.PlanDigest = x.plan.Digest() // also when nothing matched: that is what the plan said
	}
	return d
}

func detailOf(res *chain.Result) schemas.Detail {
	detail := schemas.Detail{Invocations: res.Details}
	if res.Denial != nil {
		detail.Reason = res.Denial.Reason
	}
	return detail
}

// addContext puts who called what beside the request event.
func (x *exchange) addContext(rec *schemas.Record) {
	if x.opts.Recorder == nil {
		return
	}
	raw, err := jsonx.Marshal(&schemas.Context{
		SessionID: x.req.Session, RequestID: x.req.ID, Method: x.req.Method, Target: x.target(),
		PrincipalType: x.req.Principal.Type, Principal: x.req.Principal.ID, Claims: x.req.Principal.Claims,
		ClientName: x.req.ClientName, ClientVersion: x.req.ClientVer, Protocol: x.req.Protocol,
	})
	if err != nil { // values from outside that are no text
		return
	}
	rec.Add(schemas.RoleContext, 0, raw)
}
