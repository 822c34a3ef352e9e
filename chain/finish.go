package chain

import (
	"time"

	"github.com/chaintrail/chaintrail/schemas"
)

// finish names the payload that each invocation was given, and says what goes on.
func (r *run) finish() {
	goesOn := r.result.Denial == nil
	if goesOn && r.version != asSent {
		r.result.Modified, r.result.Payload = true, r.message.payload
	}
	keep := make(map[int]bool, len(r.made))
	for i := range r.invs {
		if r.invs[i].State == schemas.StateDeferred {
			keep[r.given[i]] = true
		}
	}
	if r.in.KeepSteps {
		for _, step := range r.made {
			keep[step.Index] = true
		}
	}
	if !goesOn { // what was decided on did not go on: it is kept as the step that made it
		keep[r.version] = true
	}
	final := asSent
	if r.result.Modified {
		final = r.version
	}
	for _, step := range r.made {
		if step.Index != final && keep[step.Index] {
			r.result.Steps = append(r.result.Steps, step)
		}
	}
	for i := range r.invs {
		inv := &r.invs[i]
		if inv.State != schemas.StateSkipped {
			inv.Input = r.nameOf(r.given[i], final, keep)
		}
		if inv.Modified != nil && *inv.Modified {
			inv.Output = r.nameOf(i, final, keep)
		}
		if inv.State == schemas.StateSkipped || inv.State == schemas.StateDeferred {
			continue
		}
		if detail, ok := r.answers[i].Detail(inv); ok {
			r.result.Details = append(r.result.Details, detail)
		}
	}
	r.result.Invocations = r.invs
	r.result.Duration = time.Since(r.start)
}

// nameOf is the name of the open item that holds a version; empty if none does.
func (r *run) nameOf(version, final int, keep map[int]bool) string {
	switch {
	case version == asSent && r.in.Payload == nil:
		return ""
	case version == asSent:
		return string(schemas.RoleBefore)
	case version == final:
		return string(schemas.RoleAfter)
	case keep[version]:
		return r.seq.steps[version]
	default:
		return ""
	}
}
