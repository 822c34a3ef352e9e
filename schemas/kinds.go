package schemas

// Version names the event schema that this package writes.
const Version = "chaintrail.event/v1"

// Kind says what an event tells. The set is closed.
type Kind string

// The kinds of events.
const (
	KindWriter     Kind = "writer"     // a writer's life: open, close, adoption
	KindPlan       Kind = "plan"       // the interceptors in force, whenever they change
	KindRequest    Kind = "request"    // the request phase of an exchange; journaled before any effect
	KindOutcome    Kind = "outcome"    // the one terminal outcome of an exchange
	KindInvocation Kind = "invocation" // the final result of one deferred invocation
	KindGap        Kind = "gap"        // a stretch that was not recorded, with its count and reason
	KindAdmin      Kind = "admin"      // configuration, policy, keys, erasure, hold, retention, access
	KindCheckpoint Kind = "checkpoint" // a signed tree head
)

// Kinds lists every kind, in the order of the constants.
func Kinds() []Kind {
	return []Kind{KindWriter, KindPlan, KindRequest, KindOutcome, KindInvocation, KindGap, KindAdmin, KindCheckpoint}
}

// Outcome is how an exchange ended. The set is closed.
type Outcome string

// The outcomes of an exchange.
const (
	OutcomeAllowed   Outcome = "allowed"   // answered by the other side; a tool error is allowed with IsError
	OutcomeDenied    Outcome = "denied"    // blocked by an interceptor, or refused by the gateway
	OutcomeError     Outcome = "error"     // answered with a JSON-RPC error, malformed, or no answer was to be had
	OutcomeCancelled Outcome = "cancelled" // cancelled by the caller
	OutcomeLost      Outcome = "lost"      // its writer died; declared by the process that adopted the journal
	OutcomeStopped   Outcome = "stopped"   // open when the gateway stopped in order
)

// Status is the SEP-2624 status of one run of a plan.
type Status string

// The SEP-2624 statuses, and the two that a recorder needs beside them.
const (
	StatusSuccess          Status = "success"
	StatusValidationFailed Status = "validation_failed"
	StatusMutationFailed   Status = "mutation_failed"
	StatusTimeout          Status = "timeout"
	StatusCancelled        Status = "cancelled" // the caller gave up while the plan ran
	StatusNotRun           Status = "not_run"   // no interceptor matched, or the message is never chained
)

// Phase is the SEP-2624 phase of a message.
type Phase string

// The phases.
const (
	PhaseRequest  Phase = "request"
	PhaseResponse Phase = "response"
)

// Direction decides the order of the stages (SEP-2624): sending mutates, then validates;
// receiving validates, then mutates. It is never derived from the phase.
type Direction string

// The directions.
const (
	Sending   Direction = "sending"
	Receiving Direction = "receiving"
)

// InterceptorType is the SEP-2624 type of an interceptor.
type InterceptorType string

// The interceptor types.
const (
	TypeValidation InterceptorType = "validation"
	TypeMutation   InterceptorType = "mutation"
	TypeSink       InterceptorType = "sink"
)

// Mode is the SEP-2624 mode of an interceptor.
type Mode string

// The modes.
const (
	ModeActive Mode = "active"
	ModeAudit  Mode = "audit"
)

// Severity is the SEP-2624 severity of a validation finding.
type Severity string

// The severities.
const (
	SeverityInfo  Severity = "info"
	SeverityWarn  Severity = "warn"
	SeverityError Severity = "error"
)

// InvocationState says how one interceptor's part ended.
type InvocationState string

// The states of an invocation.
const (
	StateFinished  InvocationState = "finished"  // it answered, and the answer was well formed
	StateFailed    InvocationState = "failed"    // transport or JSON-RPC error, panic, lost server
	StateTimeout   InvocationState = "timeout"   // its own deadline passed
	StateMalformed InvocationState = "malformed" // it answered something that is not a result of this call
	StateSkipped   InvocationState = "skipped"   // it was not invoked; SkipReason says why
	StateDeferred  InvocationState = "deferred"  // handed over; the result is an invocation event of its own
)

// SkipReason says why an interceptor of the plan was not invoked.
type SkipReason string

// The reasons for a skipped invocation.
const (
	SkipAborted     SkipReason = "aborted"     // an earlier stage or mutator ended the run
	SkipChainExpiry SkipReason = "chain_limit" // the time of the whole plan was used up
	SkipCancelled   SkipReason = "cancelled"   // the caller gave up
	SkipPolicy      SkipReason = "policy"      // the payload may not be handed to deferred work
	SkipErased      SkipReason = "erased"      // the payload is gone
	SkipBudget      SkipReason = "budget"      // deferred work: the interceptor's time budget was used up
	SkipSampling    SkipReason = "sampling"    // deferred work: the message is not in the interceptor's sample
)

// Role names what an open item holds.
type Role string

// The roles of open items. Payload roles are numbered where there may be several: Index counts them.
const (
	RoleBefore   Role = "payload.before" // params or result as it arrived
	RoleAfter    Role = "payload.after"  // params or result as it went on; absent when nothing changed it
	RoleStep     Role = "payload.step"   // what the mutator with Index as its order handed on
	RoleContext  Role = "context"        // JSON of [Context]: who, from where, which ids and names
	RoleDetail   Role = "detail"         // JSON of [Detail]: reasons, messages, error texts
	RoleHosts    Role = "plan.hosts"     // JSON of []HostRef: how deferred work reaches the interceptors of a plan
	RoleSnapshot Role = "snapshot"       // encrypted true payload for deferred work; short-lived, never in ClickHouse
)

// Keep is the policy under which an open item's value is kept.
type Keep string

// The policies for open items.
const (
	KeepNone     Keep = "none"     // only size and commitment remain; not even the salt
	KeepDigest   Keep = "digest"   // size, commitment and salt
	KeepRedacted Keep = "redacted" // secrets and personal data replaced
	KeepFull     Keep = "full"     // byte for byte
)
