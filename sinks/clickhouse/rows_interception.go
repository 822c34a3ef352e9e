package clickhouse

import (
	"github.com/chaintrail/chaintrail/schemas"
)

// interceptionRows has one row for each request and outcome event; the view exchanges shows those of outcomes.
type interceptionRows struct {
	block
	place
	kind            *values[string]
	callID          ids
	parentID        ids
	gateway         *values[string]
	server          *values[string]
	method          *values[string]
	phase           *values[string]
	direction       *values[string]
	reverse         *values[bool]
	target          *values[string]
	targetRef       *values[string]
	session         *values[string]
	requestID       *values[string]
	stateIn         *values[string]
	stateOut        *values[string]
	principalType   *values[string]
	principalRef    *values[string]
	verifiedBy      *values[string]
	traceID         *values[string]
	spanID          *values[string]
	protocolVersion *values[string]
	transport       *values[string]
	status          *values[string]
	outcome         *values[string]
	abortedAt       *values[string]
	abortType       *values[string]
	abortPhase      *values[string]
	cause           *values[string]
	errors          counts
	warnings        counts
	infos           counts
	modified        *values[bool]
	isError         *values[bool]
	errorCode       *values[int64]
	planDigest      *values[[]byte]
	chainUS         *values[int64]
	backendUS       *values[int64]
	totalUS         *values[int64]
	startedAt       instants
	bytesBefore     *values[uint64]
	bytesAfter      *values[uint64]
	interceptors    counts
}

func (r *interceptionRows) init() {
	b := &r.block
	b.table = "interceptions"
	r.place = newPlace(b)
	r.kind = col[string](b, "kind")
	r.callID = idColumn(b, "call_id")
	r.parentID = idColumn(b, "parent_id")
	r.gateway = col[string](b, "gateway")
	r.server = col[string](b, "server")
	r.method = col[string](b, "event")
	r.phase = col[string](b, "phase")
	r.direction = col[string](b, "direction")
	r.reverse = col[bool](b, "reverse")
	r.target = col[string](b, "target")
	r.targetRef = col[string](b, "target_ref")
	r.session = col[string](b, "session")
	r.requestID = col[string](b, "request_id")
	r.stateIn = col[string](b, "state_in")
	r.stateOut = col[string](b, "state_out")
	r.principalType = col[string](b, "principal_type")
	r.principalRef = col[string](b, "principal_ref")
	r.verifiedBy = col[string](b, "verified_by")
	r.traceID = col[string](b, "trace_id")
	r.spanID = col[string](b, "span_id")
	r.protocolVersion = col[string](b, "protocol_version")
	r.transport = col[string](b, "transport")
	r.status = col[string](b, "status")
	r.outcome = col[string](b, "outcome")
	r.abortedAt = col[string](b, "aborted_at")
	r.abortType = col[string](b, "abort_type")
	r.abortPhase = col[string](b, "abort_phase")
	r.cause = col[string](b, "cause")
	r.errors = countColumn(b, "errors")
	r.warnings = countColumn(b, "warnings")
	r.infos = countColumn(b, "infos")
	r.modified = col[bool](b, "modified")
	r.isError = col[bool](b, "is_error")
	r.errorCode = col[int64](b, "error_code")
	r.planDigest = col[[]byte](b, "plan_digest")
	r.chainUS = col[int64](b, "chain_us")
	r.backendUS = col[int64](b, "backend_us")
	r.totalUS = col[int64](b, "total_us")
	r.startedAt = timeColumn(b, "started_at")
	r.bytesBefore = col[uint64](b, "bytes_before")
	r.bytesAfter = col[uint64](b, "bytes_after")
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
