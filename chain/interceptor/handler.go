package interceptor

import (
	"context"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Verdict is what a validator finds.
type Verdict struct {
	Valid       bool
	Severity    schemas.Severity // sent with Valid false; empty means error there. Only error blocks
	Messages    []Message
	Suggestions []Suggestion
	Info        jsonx.Value // object for people; nil leaves it out
}

// Message is one finding.
type Message struct {
	Path     string // into the payload; may be empty
	Message  string
	Severity schemas.Severity // empty means that of the verdict
}

// Suggestion is a value that would have passed.
type Suggestion struct {
	Path  string
	Value jsonx.Value
}

// Pass is the verdict of a validator that found nothing.
func Pass() Verdict { return Verdict{Valid: true} }

// Deny is a verdict that blocks.
func Deny(message string) Verdict {
	return Verdict{Severity: schemas.SeverityError, Messages: []Message{{Message: message, Severity: schemas.SeverityError}}}
}

// Warn is a verdict that tells and does not block.
func Warn(message string) Verdict {
	return Verdict{Severity: schemas.SeverityWarn, Messages: []Message{{Message: message, Severity: schemas.SeverityWarn}}}
}

// Mutation is what a mutator makes of a payload.
type Mutation struct {
	Modified bool
	Payload  jsonx.Value // the new payload; ignored unless Modified
	Info     jsonx.Value // object for people; nil leaves it out
}

// Unmodified leaves the payload as it is.
func Unmodified() Mutation { return Mutation{} }

// Modified puts another payload in the place of the one that came.
func Modified(payload jsonx.Value) Mutation { return Mutation{Modified: true, Payload: payload} }

// Receipt is what a sink answers.
type Receipt struct {
	Recorded bool
	Metrics  map[string]float64 // may be nil
	Info     jsonx.Value        // object for people; nil leaves it out
}

// Recorded is the receipt of a sink that took note.
func Recorded() Receipt { return Receipt{Recorded: true} }

// ValidatorFunc is a handler. Handlers may run many at once. ctx ends with the invoker's timeout or cancellation: a handler that
// ignores it is answered for, and holds one of the server's slots until it returns. An error or a
// panic is a failed invocation, which blocks unless the interceptor fails open.
type ValidatorFunc func(ctx context.Context, call *Call) (Verdict, error)

// MutatorFunc is a handler like [ValidatorFunc].
type MutatorFunc func(ctx context.Context, call *Call) (Mutation, error)

// SinkFunc is a handler like [ValidatorFunc].
type SinkFunc func(ctx context.Context, call *Call) (Receipt, error)

// Interceptor is a descriptor with its handler; see [Validator], [Mutator], [Sink].
type Interceptor struct {
	Descriptor Descriptor
	run        func(ctx context.Context, call *Call, out *outcome) error
	fault      error // of the constructor; New tells
}

// outcome is what a handler says beyond the common members of a result.
type outcome struct {
	modified bool
	payload  jsonx.Value // of a mutation, bare
	verdict  Verdict     // of a validator
	receipt  Receipt     // of a sink
	info     jsonx.Value
}

// Validator makes an interceptor that judges payloads.
func Validator(d Descriptor, f ValidatorFunc) Interceptor {
	d.Type = schemas.TypeValidation
	return Interceptor{Descriptor: d, run: func(ctx context.Context, call *Call, out *outcome) error {
		var err error
		out.verdict, err = f(ctx, call)
		out.info = out.verdict.Info
		return err
	}}
}

// Mutator makes an interceptor that changes payloads.
func Mutator(d Descriptor, f MutatorFunc) Interceptor {
	d.Type = schemas.TypeMutation
	return Interceptor{Descriptor: d, run: func(ctx context.Context, call *Call, out *outcome) error {
		m, err := f(ctx, call)
		if !m.Modified {
			m.Payload = call.Payload
		}
		out.modified, out.payload, out.info = m.Modified, m.Payload, m.Info
		return err
	}}
}

// Sink makes an interceptor that only takes note. It is never in the request path.
func Sink(d Descriptor, f SinkFunc) Interceptor {
	d.Type = schemas.TypeSink
	return Interceptor{Descriptor: d, run: func(ctx context.Context, call *Call, out *outcome) error {
		var err error
		out.receipt, err = f(ctx, call)
		out.info = out.receipt.Info
		return err
	}}
}
