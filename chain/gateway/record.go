package gateway

import (
	"context"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// identify fills what both events of the exchange share.
func (x *exchange) identify() {
	key := &x.lane.opts.Key
	version, client := x.session.negotiated()
	if x.version == "" {
		x.version = version
	}
	if x.facts.meta.ProtocolVersion != "" {
		x.version = x.facts.meta.ProtocolVersion
	}
	if x.msg.Method == methodInitialize && x.facts.version != "" {
		x.version = x.facts.version
	}
	if x.facts.client.name == "" {
		x.facts.client = client
	}
	x.rejoin()
	traceID, spanID := x.trace()
	x.ids = &schemas.Correlation{
		Exchange:        x.id,
		Call:            x.call,
		Session:         x.session.pseudonym,
		StateIn:         x.stateIn,
		RequestID:       key.Pseudonym("request", string(x.msg.ID)),
		Parent:          x.parent,
		TraceID:         traceID,
		SpanID:          spanID,
		ProtocolVersion: wire.SealedVersion(x.version),
		Transport:       x.transport,
		ServerVersion:   wire.SealedVersion(x.session.peerVersion()),
	}
	x.actor = &schemas.Actor{
		Type:       principalType(x.caller.Principal.Type),
		Pseudonym:  key.Pseudonym("principal", x.caller.Principal.ID),
		VerifiedBy: x.caller.VerifiedBy,
	}
	x.op = schemas.Operation{
		Event:     eventOther,
		Direction: schemas.Sending,
		Reverse:   x.reverse,
		Server:    x.lane.backend.Name,
		TargetRef: key.Pseudonym("target", x.facts.target),
	}
	if wire.KnownMethod(x.msg.Method) {
		x.op.Event = x.msg.Method
	}
	if x.facts.target != "" && x.lane.listed.has(x.msg.Method, x.facts.target) {
		x.op.Target = x.facts.target
	}
}

func principalType(t string) string {
	if t == "user" || t == "service" {
		return t
	}
	return "anonymous"
}

// newRecord begins an event of the exchange.
func (x *exchange) newRecord(kind schemas.Kind, phase schemas.Phase) *schemas.Record {
	op := x.op
	op.Phase = phase
	if phase == schemas.PhaseResponse {
		op.Direction = schemas.Receiving
	}
	return &schemas.Record{
		Event: schemas.Event{Kind: kind, Correlation: x.ids, Actor: x.actor, Operation: &op},
		Items: make([]schemas.OpenItem, 0, 4),
	}
}

// run takes a payload through the plan; the event gets its id now, because it names the interception.
func (x *exchange) run(ctx context.Context, rec *schemas.Record, payload jsonx.Value) chain.Result {
	rec.Event.ID = uuid.NewV7()
	target := ""
	if rec.Event.Operation.Phase == schemas.PhaseResponse {
		target = x.facts.target
	}
	res := x.inForce().Run(ctx, chain.Input{
		Interception: rec.Event.ID,
		Event:        x.msg.Method,
		Phase:        rec.Event.Operation.Phase,
		Direction:    rec.Event.Operation.Direction,
		Payload:      payload,
		Tenant:       x.lane.opts.Tenant,
		Target:       x.facts.target,
		Context: chain.Context{
			Principal: x.caller.Principal,
			TraceID:   x.ids.TraceID,
			SpanID:    x.ids.SpanID,
			Timestamp: x.started,
			SessionID: x.contextSession(),
			Server:    rec.Event.Operation.Server,
			Target:    target,
		},
	})
	rec.Event.Invocations = res.Invocations
	return res
}

// contextSession is the session id that interceptors are told. Protocol 2026-07-28 has none: over HTTP what a client calls
// so is only its word, and on stdio the gateway has made one.
func (x *exchange) contextSession() string {
	if x.transport == "http" && stateless(x.version) {
		return ""
	}
	return x.session.id
}

// decision is the sealed word on a run, and for an outcome on the exchange.
func (x *exchange) decision(res *chain.Result, v verdict) *schemas.Decision {
	d := res.Decision()
	d.Outcome, d.Cause, d.IsError = v.outcome, v.cause, v.isError
	if d.PlanDigest.IsZero() && x.inForce() != nil {
		d.PlanDigest = x.inForce().Digest() // also when nothing matched: that is what the plan said
	}
	if denial := v.denial; denial != nil {
		d.AbortedAt, d.AbortType, d.AbortPhase = denial.Interceptor, denial.Type, denial.Phase
	}
	switch {
	case v.rpc == nil:
	case x.deniedByResult(&v):
		d.IsError = true
	default:
		d.ErrorCode = v.rpc.Code
	}
	if v.outcome == schemas.OutcomeDenied && v.denial == nil && res.Denial == nil {
		d.AbortType = "gateway"
	}
	return d
}

func (x *exchange) outcomeRecord(res *chain.Result, v verdict) *schemas.Record {
	rec := x.newRecord(schemas.KindOutcome, schemas.PhaseResponse)
	x.fillOutcome(rec, res, v)
	return rec
}

func (x *exchange) fillOutcome(rec *schemas.Record, res *chain.Result, v verdict) {
	d := x.decision(res, v)
	now := time.Now()
	d.TotalUS = now.Sub(x.started).Microseconds()
	d.StartedAt = schemas.At(x.started)
	if sent := x.sent(); !sent.IsZero() {
		d.BackendUS = max(0, (now.Sub(sent) - res.Duration).Microseconds())
	}
	rec.Event.Decision = d
	addDetail(rec, res, v)
}

func (x *exchange) sent() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sentAt
}

// addBody puts the payload of a phase beside the event, with what the run made of it.
func addBody(rec *schemas.Record, payload jsonx.Value, res *chain.Result, flags wire.Flags) {
	res.AddBody(rec, payload, flagNames(flags))
}

// addOdd puts bytes beside the event that are not a message.
func addOdd(rec *schemas.Record, raw []byte) {
	if len(raw) == 0 {
		return
	}
	rec.Add(schemas.RoleBefore, 0, raw)
	rec.Items[len(rec.Items)-1].Ref.Flags = []string{"not_json"}
}

func flagNames(flags wire.Flags) []string {
	if flags&^wire.FlagNull == 0 {
		return nil
	}
	var names []string
	if flags&wire.FlagLoneSurrogate != 0 {
		names = append(names, "lone_surrogate")
	}
	if flags&wire.FlagInvalidUTF8 != 0 {
		names = append(names, "invalid_utf8")
	}
	if flags&wire.FlagDuplicates != 0 {
		names = append(names, "duplicate_names")
	}
	return names
}

// addContext puts who called from where beside the request event.
func (x *exchange) addContext(rec *schemas.Record) {
	raw, err := jsonx.Marshal(&schemas.Context{
		SessionID:     x.session.id,
		RequestID:     x.msg.ID,
		Method:        x.msg.Method,
		Target:        x.facts.target,
		PrincipalType: x.caller.Principal.Type,
		Principal:     x.caller.Principal.ID,
		Claims:        x.caller.Principal.Claims,
		ClientName:    x.facts.client.name,
		ClientVersion: x.facts.client.version,
		ClientAddress: x.address,
		UserAgent:     x.userAgent,
		Protocol:      x.version,
		Asserted:      x.facts.asserted,
	})
	if err != nil { // values from outside that are no text, in a message that is refused as malformed
		return
	}
	rec.Add(schemas.RoleContext, 0, raw)
}

// addDetail puts reasons and texts beside the event, if there are any.
func addDetail(rec *schemas.Record, res *chain.Result, v verdict) {
	detail := schemas.Detail{Error: v.text, Invocations: res.Details}
	switch {
	case v.denial != nil:
		detail.Reason = v.denial.Reason
	case res.Denial != nil:
		detail.Reason = res.Denial.Reason
	}
	if v.rpc != nil && detail.Error == "" {
		detail.Error = v.rpc.Message
	}
	chain.AddDetail(rec, detail)
}

// learn takes from a result what later exchanges need.
func (l *lane) learn(x *exchange, result jsonx.Value) {
	if x.reverse {
		return
	}
	switch x.msg.Method {
	case methodToolsList, methodPromptsList:
		l.listed.learn(x.msg.Method, result)
		if x.msg.Method == methodToolsList {
			l.bound.learn(result)
		}
	case methodInitialize:
		version, _ := wire.MemberString(result, "protocolVersion")
		x.session.learn(version, x.facts.client)
	}
	x.expectRound(result)
}

// notePeer adds to an outcome what the exchange itself brought to light: that the server is of another
// generation than the client.
func (x *exchange) notePeer(rec *schemas.Record) {
	version := wire.SealedVersion(x.session.peerVersion())
	if version == "" || version == rec.Event.Correlation.ServerVersion {
		return
	}
	ids := *rec.Event.Correlation // the request event keeps its own
	ids.ServerVersion = version
	rec.Event.Correlation = &ids
}
