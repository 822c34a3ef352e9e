package clickhouse

import "github.com/chaintrail/chaintrail/schemas"

// invocationRows has one row for each final result of an interceptor. One that was handed over has none until
// the invocation event with its result.
type invocationRows struct {
	block
	place
	kind         *values[string]
	interception ids
	id           *values[string]
	interceptor  *values[string]
	version      *values[string]
	host         *values[string]
	typ          *values[string]
	mode         *values[string]
	failOpen     *values[bool]
	priority     *values[int32]
	planOrder    counts
	state        *values[string]
	skipReason   *values[string]
	valid        *values[*bool]
	severity     *values[string]
	modified     *values[*bool]
	recorded     *values[*bool]
	input        *values[string]
	output       *values[string]
	errors       counts
	warnings     counts
	infos        counts
	errorCode    *values[int64]
	attempt      counts
	durationUS   *values[int64]
	server       *values[string]
	method       *values[string]
	phase        *values[string]
	direction    *values[string]
	target       *values[string]
}

func (r *invocationRows) init() {
	b := &r.block
	b.table = "invocations"
	r.place = newPlace(b)
	r.kind = col[string](b, "kind")
	r.interception = idColumn(b, "interception")
	r.id = col[string](b, "id")
	r.interceptor = col[string](b, "interceptor")
	r.version = col[string](b, "version")
	r.host = col[string](b, "host")
	r.typ = col[string](b, "type")
	r.mode = col[string](b, "mode")
	r.failOpen = col[bool](b, "fail_open")
	r.priority = col[int32](b, "priority")
	r.planOrder = countColumn(b, "plan_order")
	r.state = col[string](b, "state")
	r.skipReason = col[string](b, "skip_reason")
	r.valid = col[*bool](b, "valid")
	r.severity = col[string](b, "severity")
	r.modified = col[*bool](b, "modified")
	r.recorded = col[*bool](b, "recorded")
	r.input = col[string](b, "input")
	r.output = col[string](b, "output")
	r.errors = countColumn(b, "errors")
	r.warnings = countColumn(b, "warnings")
	r.infos = countColumn(b, "infos")
	r.errorCode = col[int64](b, "error_code")
	r.attempt = countColumn(b, "attempt")
	r.durationUS = col[int64](b, "duration_us")
	r.server = col[string](b, "server")
	r.method = col[string](b, "event")
	r.phase = col[string](b, "phase")
	r.direction = col[string](b, "direction")
	r.target = col[string](b, "target")
}

func (r *invocationRows) add(o *origin, known map[string]bool) {
	event := o.entry.Event
	c, _, op, _ := groups(event)
	interception := event.ID
	if event.Kind == schemas.KindInvocation {
		interception = c.Interception
	}
	for i := range event.Invocations {
		v := &event.Invocations[i]
		if v.State == schemas.StateDeferred || known[v.ID] {
			continue
		}
		if known != nil {
			known[v.ID] = true // a second result in the same batch
		}
		r.at(o)
		r.addOne(event, op, v)
		r.interception.put(interception)
	}
}

func (r *invocationRows) addOne(event *schemas.Event, op *schemas.Operation, v *schemas.Invocation) {
	r.kind.add(string(event.Kind))
	r.id.add(v.ID)
	r.interceptor.add(v.Interceptor)
	r.version.add(v.Version)
	r.host.add(v.Host)
	r.typ.add(string(v.Type))
	r.mode.add(string(v.Mode))
	r.failOpen.add(v.FailOpen)
	r.priority.add(v.Priority)
	r.planOrder.put(v.Order)
	r.state.add(string(v.State))
	r.skipReason.add(string(v.SkipReason))
	r.valid.add(v.Valid)
	r.severity.add(string(v.Severity))
	r.modified.add(v.Modified)
	r.recorded.add(v.Recorded)
	r.input.add(v.Input)
	r.output.add(v.Output)
	r.errors.put(v.Errors)
	r.warnings.put(v.Warnings)
	r.infos.put(v.Infos)
	r.errorCode.add(int64(v.ErrorCode))
	r.attempt.put(v.Attempt)
	r.durationUS.add(v.DurationUS)
	r.server.add(op.Server)
	r.method.add(op.Event)
	r.phase.add(string(op.Phase))
	r.direction.add(string(op.Direction))
	r.target.add(op.Target)
}
