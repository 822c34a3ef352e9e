package clickhouse

import (
	"github.com/chaintrail/chaintrail/schemas"
)

// interceptionRows has one row for each request and outcome event; the view exchanges shows those of outcomes.
type interceptionRows struct {
	block
	place
	kind            *names
	callID          ids
	parentID        ids
	gateway         *names
	server          *names
	method          *names
	phase           *names
	direction       *names
	reverse         flags
	target          *names
	targetRef       texts
	session         texts
	requestID       texts
	stateIn         texts
	stateOut        texts
	principalType   *names
	principalRef    texts
	verifiedBy      *names
	traceID         texts
	spanID          texts
	protocolVersion *names
	transport       *names
	status          *names
	outcome         *names
	abortedAt       *names
	abortType       *names
	abortPhase      *names
	cause           *names
	errors          counts
	warnings        counts
	infos           counts
	modified        flags
	isError         flags
	errorCode       signed
	planDigest      hashes
	chainUS         signed
	backendUS       signed
	totalUS         signed
	startedAt       instants
	bytesBefore     numbers
	bytesAfter      numbers
	interceptors    counts
}

func (r *interceptionRows) init() {
	b := &r.block
	b.table = "interceptions"
	r.place = newPlace(b)
	r.kind = nameColumn(b, "kind")
	r.callID = idColumn(b, "call_id")
	r.parentID = idColumn(b, "parent_id")
	r.gateway = nameColumn(b, "gateway")
	r.server = nameColumn(b, "server")
	r.method = nameColumn(b, "event")
	r.phase = nameColumn(b, "phase")
	r.direction = nameColumn(b, "direction")
	r.reverse = flagColumn(b, "reverse")
	r.target = nameColumn(b, "target")
	r.targetRef = textColumn(b, "target_ref")
	r.session = textColumn(b, "session")
	r.requestID = textColumn(b, "request_id")
	r.stateIn = textColumn(b, "state_in")
	r.stateOut = textColumn(b, "state_out")
	r.principalType = nameColumn(b, "principal_type")
	r.principalRef = textColumn(b, "principal_ref")
	r.verifiedBy = nameColumn(b, "verified_by")
	r.traceID = textColumn(b, "trace_id")
	r.spanID = textColumn(b, "span_id")
	r.protocolVersion = nameColumn(b, "protocol_version")
	r.transport = nameColumn(b, "transport")
	r.status = nameColumn(b, "status")
	r.outcome = nameColumn(b, "outcome")
	r.abortedAt = nameColumn(b, "aborted_at")
	r.abortType = nameColumn(b, "abort_type")
	r.abortPhase = nameColumn(b, "abort_phase")
	r.cause = nameColumn(b, "cause")
	r.errors = countColumn(b, "errors")
	r.warnings = countColumn(b, "warnings")
	r.infos = countColumn(b, "infos")
	r.modified = flagColumn(b, "modified")
	r.isError = flagColumn(b, "is_error")
	r.errorCode = signedColumn(b, "error_code")
	r.planDigest = hashColumn(b, "plan_digest")
	r.chainUS = signedColumn(b, "chain_us")
	r.backendUS = signedColumn(b, "backend_us")
	r.totalUS = signedColumn(b, "total_us")
	r.startedAt = timeColumn(b, "started_at")
	r.bytesBefore = numberColumn(b, "bytes_before")
	r.bytesAfter = numberColumn(b, "bytes_after")
	r.interceptors = countColumn(b, "interceptors")
}

func (r *interceptionRows) add(o *origin) {
	event := o.entry.Event
	c, a, op, d := groups(event)
	before, after := bodySizes(event.Open)
	r.at(o)
	r.kind.add(string(event.Kind))
	r.callID.put(c.Call)
	r.parentID.put(c.Parent)
	r.gateway.add(event.Gateway)
	r.server.add(op.Server)
	r.method.add(op.Event)
	r.phase.add(string(op.Phase))
	r.direction.add(string(op.Direction))
	r.reverse.add(op.Reverse)
	r.target.add(op.Target)
	r.targetRef.add(string(op.TargetRef))
	r.session.add(string(c.Session))
	r.requestID.add(string(c.RequestID))
	r.stateIn.add(string(c.StateIn))
	r.stateOut.add(string(c.StateOut))
	r.principalType.add(a.Type)
	r.principalRef.add(string(a.Pseudonym))
	r.verifiedBy.add(a.VerifiedBy)
	r.traceID.add(c.TraceID)
	r.spanID.add(c.SpanID)
	r.protocolVersion.add(c.ProtocolVersion)
	r.transport.add(c.Transport)
	r.status.add(string(d.Status))
	r.outcome.add(string(d.Outcome))
	r.abortedAt.add(d.AbortedAt)
	r.abortType.add(d.AbortType)
	r.abortPhase.add(string(d.AbortPhase))
	r.cause.add(d.Cause)
	r.errors.put(d.Errors)
	r.warnings.put(d.Warnings)
	r.infos.put(d.Infos)
	r.modified.add(d.Modified)
	r.isError.add(d.IsError)
	r.errorCode.add(int64(d.ErrorCode))
	r.planDigest.add(d.PlanDigest[:])
	r.chainUS.add(d.ChainUS)
	r.backendUS.add(d.BackendUS)
	r.totalUS.add(d.TotalUS)
	r.startedAt.put(d.StartedAt)
	r.bytesBefore.add(before)
	r.bytesAfter.add(after)
	r.interceptors.put(len(event.Invocations))
}

// groups returns the groups of an event, empty ones for those that it does not have.
func groups(event *schemas.Event) (*schemas.Correlation, *schemas.Actor, *schemas.Operation, *schemas.Decision) {
	c, a, op, d := event.Correlation, event.Actor, event.Operation, event.Decision
	if c == nil {
		c = &schemas.Correlation{}
	}
	if a == nil {
		a = &schemas.Actor{}
	}
	if op == nil {
		op = &schemas.Operation{}
	}
	if d == nil {
		d = &schemas.Decision{}
	}
	return c, a, op, d
}

// bodySizes returns the true sizes of the payload as it arrived and as it went on.
func bodySizes(open []schemas.OpenRef) (before, after uint64) {
	changed := false
	for i := range open {
		size := uint64(max(open[i].Bytes, 0))
		switch open[i].Role {
		case schemas.RoleBefore:
			before = size
		case schemas.RoleAfter:
			after, changed = size, true
		default:
		}
	}
	if !changed {
		after = before
	}
	return before, after
}
