package clickhouse

import "github.com/chaintrail/chaintrail/schemas"

// invocationRows has one row for each final result of an interceptor. One that was handed over has none until
// the invocation event with its result.
type invocationRows struct {
	block
	place
	kind         *names
	interception ids
	id           texts
	interceptor  *names
	version      *names
	host         *names
	typ          *names
	mode         *names
	modeReason   *names
	failOpen     flags
	priority     *values[int32]
	planOrder    counts
	state        *names
	skipReason   *names
	valid        maybes
	severity     *names
	modified     maybes
	recorded     maybes
	input        *names
	output       *names
	errors       counts
	warnings     counts
	infos        counts
	errorCode    signed
	attempt      counts
	durationUS   signed
	server       *names
	method       *names
	phase        *names
	direction    *names
	target       *names
}

func (r *invocationRows) init() {
	b := &r.block
	b.table = "invocations"
	r.place = newPlace(b)
	r.kind = nameColumn(b, "kind")
	r.interception = idColumn(b, "interception")
	r.id = textColumn(b, "id")
	r.interceptor = nameColumn(b, "interceptor")
	r.version = nameColumn(b, "version")
	r.host = nameColumn(b, "host")
	r.typ = nameColumn(b, "type")
	r.mode = nameColumn(b, "mode")
	r.modeReason = nameColumn(b, "mode_reason")
	r.failOpen = flagColumn(b, "fail_open")
	r.priority = priorityColumn(b, "priority")
	r.planOrder = countColumn(b, "plan_order")
	r.state = nameColumn(b, "state")
	r.skipReason = nameColumn(b, "skip_reason")
	r.valid = maybeColumn(b, "valid")
	r.severity = nameColumn(b, "severity")
	r.modified = maybeColumn(b, "modified")
	r.recorded = maybeColumn(b, "recorded")
	r.input = nameColumn(b, "input")
	r.output = nameColumn(b, "output")
	r.errors = countColumn(b, "errors")
	r.warnings = countColumn(b, "warnings")
	r.infos = countColumn(b, "infos")
	r.errorCode = signedColumn(b, "error_code")
	r.attempt = countColumn(b, "attempt")
	r.durationUS = signedColumn(b, "duration_us")
	r.server = nameColumn(b, "server")
	r.method = nameColumn(b, "event")
	r.phase = nameColumn(b, "phase")
	r.direction = nameColumn(b, "direction")
	r.target = nameColumn(b, "target")
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
	r.modeReason.add(v.ModeReason)
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
