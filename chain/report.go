package chain

import (
	"crypto/sha256"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Report is the JSON form of a [Result], for people and for tools: what the chain result of SEP-2624 has, and what failed
// open, what did not run, and digests of what each was given and made.
type Report struct {
	Status       schemas.Status  `json:"status"`
	Event        string          `json:"event"`
	Phase        schemas.Phase   `json:"phase"`
	Allowed      bool            `json:"allowed"` // nobody denied it: it goes on with FinalPayload
	Modified     bool            `json:"modified"`
	PlanDigest   seal.Hash       `json:"plan_digest,omitzero"`
	DurationUS   int64           `json:"duration_us"`
	Summary      Summary         `json:"summary"`
	AbortedAt    *Aborted        `json:"aborted_at,omitzero"`
	Results      []Reported      `json:"results"` // by plan order
	FailedOpen   []FailedOpen    `json:"failed_open,omitempty"`
	Skipped      []SkippedResult `json:"skipped,omitempty"`
	FinalPayload jsonx.Value     `json:"final_payload,omitzero"` // absent when it was denied
}

// Summary counts what validators found, by severity.
type Summary struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
}

// Aborted says who ended a run, and what the caller is told.
type Aborted struct {
	Interceptor string      `json:"interceptor,omitzero"` // empty when the caller gave up
	Type        string      `json:"type,omitzero"`        // validation, mutation or timeout
	Reason      string      `json:"reason"`
	Code        int         `json:"code"` // JSON-RPC error code, as the next two for the caller
	Message     string      `json:"message"`
	Data        jsonx.Value `json:"data,omitzero"`
}

// Reported is one interceptor's part, with what it said.
type Reported struct {
	schemas.Invocation
	// SHA-256 of the payloads that Input and Output name; zero where the result does not hold them, see Input.KeepSteps.
	InputDigest  seal.Hash                 `json:"input_digest,omitzero"`
	OutputDigest seal.Hash                 `json:"output_digest,omitzero"`
	Detail       *schemas.InvocationDetail `json:"detail,omitzero"`
}

// FailedOpen is an invocation in the path that failed and was passed over, because its interceptor fails open.
type FailedOpen struct {
	Interceptor string                  `json:"interceptor"`
	State       schemas.InvocationState `json:"state"`
	Error       string                  `json:"error,omitzero"`
}

// SkippedResult is an interceptor that was due and was not invoked.
type SkippedResult struct {
	Interceptor string             `json:"interceptor"`
	Reason      schemas.SkipReason `json:"reason"`
}

// Report returns the JSON form of the result; in is what the run was given. It shares payloads with both.
func (r *Result) Report(in *Input) *Report {
	out := &Report{
		Status: r.Status, Event: in.Event, Phase: in.Phase, Allowed: r.Denial == nil, Modified: r.Modified, PlanDigest: r.PlanDigest,
		DurationUS: r.Duration.Microseconds(), Summary: Summary{r.Errors, r.Warnings, r.Infos}, Results: make([]Reported, len(r.Invocations)),
	}
	if d := r.Denial; d != nil {
		out.AbortedAt = &Aborted{
			Interceptor: d.Interceptor, Type: d.Type, Reason: d.Reason, Code: d.Code, Message: d.Message, Data: d.Data,
		}
	} else {
		out.FinalPayload = r.Payload
	}
	details := make(map[int]*schemas.InvocationDetail, len(r.Details))
	for i := range r.Details {
		details[r.Details[i].Order] = &r.Details[i]
	}
	digests := map[string]seal.Hash{}
	for i, inv := range r.Invocations {
		one := &out.Results[i]
		one.Invocation, one.Detail = inv, details[inv.Order]
		one.InputDigest = r.digestOf(in, inv.Input, digests)
		one.OutputDigest = r.digestOf(in, inv.Output, digests)
		switch inv.State {
		case schemas.StateSkipped:
			out.Skipped = append(out.Skipped, SkippedResult{inv.Interceptor, inv.SkipReason})
		case schemas.StateFailed, schemas.StateTimeout, schemas.StateMalformed:
			if !inv.FailOpen {
				break
			}
			failed := FailedOpen{Interceptor: inv.Interceptor, State: inv.State}
			if one.Detail != nil {
				failed.Error = one.Detail.Error
			}
			out.FailedOpen = append(out.FailedOpen, failed)
		case schemas.StateFinished, schemas.StateDeferred:
		}
	}
	return out
}

// digestOf is the digest of a payload by its name; known keeps those that were computed.
func (r *Result) digestOf(in *Input, name string, known map[string]seal.Hash) seal.Hash {
	if digest, ok := known[name]; ok {
		return digest
	}
	var digest seal.Hash
	if payload := r.PayloadOf(in, name); payload != nil {
		digest = sha256.Sum256(payload)
	}
	known[name] = digest
	return digest
}

// Take fills in what came of deferred work, or of an invocation by hand.
func (o *Reported) Take(a *Answer) {
	a.Fill(&o.Invocation)
	o.Detail = nil
	if detail, ok := a.DeferredDetail(&o.Invocation); ok {
		o.Detail = &detail
	}
	if a.Payload != nil {
		o.OutputDigest = sha256.Sum256(a.Payload)
	}
}
