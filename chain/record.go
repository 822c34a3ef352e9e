package chain

import (
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Decision is the sealed word on the run, for the event that records it.
func (r *Result) Decision() *schemas.Decision {
	d := &schemas.Decision{
		Status: r.Status, Errors: r.Errors, Warnings: r.Warnings, Infos: r.Infos,
		Modified: r.Modified, PlanDigest: r.PlanDigest, ChainUS: r.Duration.Microseconds(),
	}
	if r.Denial != nil {
		d.AbortedAt, d.AbortType, d.AbortPhase = r.Denial.Interceptor, r.Denial.Type, r.Denial.Phase
	}
	return d
}

// AddBody puts the payload of a phase beside its event, with what the run made of it; flags tell what is odd about it.
func (r *Result) AddBody(rec *schemas.Record, payload jsonx.Value, flags []string) {
	if payload != nil {
		rec.Add(schemas.RoleBefore, 0, payload)
		rec.Items[len(rec.Items)-1].Ref.Flags = flags
	}
	if r.Modified {
		rec.Add(schemas.RoleAfter, 0, r.Payload)
	}
	for _, step := range r.Steps {
		rec.Add(schemas.RoleStep, step.Index, step.Payload)
	}
}

// AddDetail puts reasons and texts beside an event, if there are any.
func AddDetail(rec *schemas.Record, detail schemas.Detail) {
	if detail.Error == "" && detail.Reason == "" && len(detail.Invocations) == 0 {
		return
	}
	raw, err := jsonx.Marshal(&detail)
	if err != nil { // a text that is not UTF-8: the structure is worth more than the text
		raw, err = jsonx.Marshal(&schemas.Detail{Reason: "detail is not UTF-8"})
		if err != nil {
			return
		}
	}
	rec.Add(schemas.RoleDetail, 0, raw)
}
