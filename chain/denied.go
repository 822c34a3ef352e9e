package chain

import (
	"fmt"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// DeniedError is returned by whoever runs a plan around a call, when an interceptor ended it. Find it with errors.As.
type DeniedError struct {
	Denial
	Status   schemas.Status   // validation_failed, mutation_failed or timeout
	Severity schemas.Severity // of the worst finding; error where an interceptor gave no result
	Messages []Finding        // what the interceptors that block said; none with DenyGeneric
}

// Finding is one message of a validator.
type Finding struct {
	Interceptor string
	Path        string // into the payload; may be empty
	Severity    schemas.Severity
	Message     string
}

// Error implements error: what happened, by whom, and the first thing it said.
func (e *DeniedError) Error() string {
	text := fmt.Sprintf("%s in the %s phase", e.Message, e.Phase)
	if e.Interceptor != "" {
		text += ": " + e.Interceptor
	}
	if len(e.Messages) > 0 {
		text += ": " + e.Messages[0].Message
	}
	return text
}

// RPC is the error as a JSON-RPC caller gets it.
func (e *DeniedError) RPC() *wire.RPCError {
	return &wire.RPCError{Code: e.Code, Message: e.Message, Data: e.Data}
}

// Err returns a *[DeniedError] when the run was ended by an interceptor, and nil when the message goes on or when its
// caller gave up.
func (r *Result) Err() error {
	if r.Denial == nil || r.Status == schemas.StatusCancelled {
		return nil
	}
	e := &DeniedError{Denial: *r.Denial, Status: r.Status, Severity: schemas.SeverityError}
	if r.Status != schemas.StatusValidationFailed || r.Denial.Data == nil {
		return e
	}
	for i := range r.Details {
		d := &r.Details[i]
		if d.Order >= len(r.Invocations) {
			continue
		}
		if inv := &r.Invocations[d.Order]; inv.Valid == nil || *inv.Valid || inv.Severity != schemas.SeverityError {
			continue
		}
		e.Messages = appendFindings(e.Messages, d)
	}
	return e
}

// appendFindings reads what one interceptor said, within the bounds of what a denial repeats.
func appendFindings(list []Finding, d *schemas.InvocationDetail) []Finding {
	for message := range jsonx.Elements(d.Messages) {
		if len(list) >= maxDenyMessages {
			break
		}
		f := Finding{Interceptor: d.Interceptor, Severity: schemas.SeverityError}
		for m := range jsonx.Members(message) {
			text, _ := jsonx.StringOf(m.Value)
			switch string(m.Name) {
			case "path":
				f.Path = text
			case "message":
				f.Message = text[:min(len(text), maxDenyText)]
			case "severity":
				f.Severity = severityOf(text)
			}
		}
		list = append(list, f)
	}
	return list
}
