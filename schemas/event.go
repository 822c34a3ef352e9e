package schemas

import (
	"uuid"

	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Event is the sealed part of a record. Its JSON form (schemas/event/v1) is produced once, by the
// journal, and never encoded again: journal, stream and ClickHouse hold the same bytes.
//
// Whoever records fills the groups; the journal fills Schema, ID, Writer, Seq, PrevHash and Time.
type Event struct {
	Schema   string    `json:"schema"`
	ID       uuid.UUID `json:"id"` // UUIDv7 (RFC 9562); the recorder may set it beforehand, else the journal does
	Kind     Kind      `json:"kind"`
	Writer   uuid.UUID `json:"writer"`    // one process start × tenant
	Seq      uint64    `json:"seq"`       // 1, 2, 3 … per writer, without a gap
	PrevHash seal.Hash `json:"prev_hash"` // hash of the event with Seq-1; zero for Seq 1
	Time     Time      `json:"time"`      // recorder's clock
	Tenant   string    `json:"tenant"`
	Gateway  string    `json:"gateway,omitzero"` // configured name

	Correlation *Correlation `json:"correlation,omitzero"`
	Actor       *Actor       `json:"actor,omitzero"`
	Operation   *Operation   `json:"operation,omitzero"`
	Decision    *Decision    `json:"decision,omitzero"`
	Invocations []Invocation `json:"invocations,omitempty"`
	Open        []OpenRef    `json:"open,omitempty"` // one for each open item, in their order

	Life  *WriterLife `json:"life,omitzero"`  // KindWriter
	Plan  *Plan       `json:"plan,omitzero"`  // KindPlan
	Gap   *Gap        `json:"gap,omitzero"`   // KindGap
	Admin *Admin      `json:"admin,omitzero"` // KindAdmin

	Checkpoint *Checkpoint `json:"checkpoint,omitzero"` // KindCheckpoint
}

// Correlation joins events that belong together.
type Correlation struct {
	Exchange        uuid.UUID      `json:"exchange_id"`
	Call            uuid.UUID      `json:"call_id,omitzero"`                 // several exchanges (MRTR rounds) can make one call
	Interception    uuid.UUID      `json:"interception,omitzero"`            // KindInvocation: id of the request or outcome event
	Session         seal.Pseudonym `json:"session,omitzero"`                 // of the MCP session id
	RequestID       seal.Pseudonym `json:"request_id,omitzero"`              // of the JSON-RPC id, raw bytes
	Parent          uuid.UUID      `json:"parent_id,omitzero"`               // exchange that this one arose in (sampling, elicitation)
	StateIn         seal.Pseudonym `json:"state_in,omitzero"`                // of the requestState that the request brought; joins the rounds of one call
	StateOut        seal.Pseudonym `json:"state_out,omitzero"`               // of the requestState that the result handed out
	TraceID         string         `json:"trace_id,omitzero"`                // 32 lower-case hex digits (W3C Trace Context)
	SpanID          string         `json:"span_id,omitzero"`                 // 16 lower-case hex digits
	ProtocolVersion string         `json:"protocol_version,omitzero"`        // a known MCP revision, else "other"
	Transport       string         `json:"transport,omitzero"`               // "http", "stdio" or "inprocess": the caller's side
	ServerVersion   string         `json:"server_protocol_version,omitzero"` // of the server, where the gateway translates between two generations; likewise
}

// Actor is who called, as far as it may be sealed. Clear values are in the context item.
type Actor struct {
	Type       string         `json:"type"` // "user", "service" or "anonymous" (SEP-2624 principal types)
	Pseudonym  seal.Pseudonym `json:"pseudonym,omitzero"`
	VerifiedBy string         `json:"verified_by,omitzero"` // configured name of what verified it; empty: asserted only
}

// Operation is what was asked for.
type Operation struct {
	Event     string         `json:"event"` // a known MCP method or a configured hook event, else "other"
	Phase     Phase          `json:"phase"`
	Direction Direction      `json:"direction"`
	Reverse   bool           `json:"reverse,omitzero"`    // asked by the server of the client (sampling, elicitation, roots)
	Server    string         `json:"server"`              // configured backend name
	Target    string         `json:"target,omitzero"`     // tool or prompt name as the server listed it
	TargetRef seal.Pseudonym `json:"target_ref,omitzero"` // pseudonym of any name or URI, listed or not
}

// Decision is how a phase, or the whole exchange, ended.
type Decision struct {
	Status     Status    `json:"status"`
	Outcome    Outcome   `json:"outcome,omitzero"` // KindOutcome only
	AbortedAt  string    `json:"aborted_at,omitzero"`
	AbortType  string    `json:"abort_type,omitzero"`  // "validation", "mutation", "timeout" or "gateway"
	AbortPhase Phase     `json:"abort_phase,omitzero"` // phase that blocked
	Errors     int       `json:"errors,omitzero"`      // findings by severity
	Warnings   int       `json:"warnings,omitzero"`
	Infos      int       `json:"infos,omitzero"`
	Modified   bool      `json:"modified,omitzero"`
	PlanDigest seal.Hash `json:"plan_digest,omitzero"`
	ChainUS    int64     `json:"chain_us"`            // time in interceptors, this phase, µs
	BackendUS  int64     `json:"backend_us,omitzero"` // KindOutcome: from first byte out to answer, µs
	TotalUS    int64     `json:"total_us,omitzero"`   // KindOutcome: from arrival to answer, µs
	StartedAt  Time      `json:"started_at,omitzero"` // KindOutcome: when the request arrived
	IsError    bool      `json:"is_error,omitzero"`   // tool result with isError true
	ErrorCode  int       `json:"error_code,omitzero"` // JSON-RPC error code given to the caller
	// Cause says why an exchange ended as it did where no interceptor decided, from a closed set. Of the gateway:
	// "malformed", "too_large", "reused_id", "stray", "unroutable", "unresolved", "unauthorized", "unknown_session",
	// "session_ended",
	// "overloaded", "backend_lost", "no_answer", "http_status", "client_gone", "audit_full", "audit_failed", "stopping".
	// Of whoever closes a writer: "shutdown" (stopped: in order), "writer_lost" (lost: the process died).
	Cause string `json:"cause,omitzero"`
}

// Invocation is one interceptor's part in an interception.
type Invocation struct {
	ID          string          `json:"id"` // seal.InvocationID(interception, host, interceptor, version)
	Interceptor string          `json:"interceptor"`
	Version     string          `json:"version,omitzero"`
	Host        string          `json:"host"` // configured name of the interceptor server, "inprocess" for our own
	Type        InterceptorType `json:"type"`
	Mode        Mode            `json:"mode"`
	ModeReason  string          `json:"mode_reason,omitzero"` // why this mode for this message, where a canary rule decides
	FailOpen    bool            `json:"fail_open,omitzero"`
	Priority    int32           `json:"priority,omitzero"`
	Order       int             `json:"order"` // position in the plan, from 0
	State       InvocationState `json:"state"`
	SkipReason  SkipReason      `json:"skip_reason,omitzero"`
	Valid       *bool           `json:"valid,omitzero"`
	Severity    Severity        `json:"severity,omitzero"`
	Modified    *bool           `json:"modified,omitzero"`
	Recorded    *bool           `json:"recorded,omitzero"`
	Input       string          `json:"input,omitzero"`  // name of the open item it was given, see [ItemName]
	Output      string          `json:"output,omitzero"` // name of the open item it made
	Errors      int             `json:"errors,omitzero"`
	Warnings    int             `json:"warnings,omitzero"`
	Infos       int             `json:"infos,omitzero"`
	ErrorCode   int             `json:"error_code,omitzero"` // JSON-RPC error code of a failed invocation
	Attempt     int             `json:"attempt,omitzero"`    // deferred: the try that gave this result, from 1
	DurationUS  int64           `json:"duration_us,omitzero"`
}

// WriterLife tells of a writer's beginning and end.
type WriterLife struct {
	State       string     `json:"state"`                   // "open", "close" (in order) or "adopted" (closed for a dead writer)
	Subject     *WriterRef `json:"subject,omitzero"`        // "adopted": the dead writer with its last seq and hash
	Predecessor *WriterRef `json:"predecessor,omitzero"`    // "open": the writer before on this data directory
	Version     string     `json:"version,omitzero"`        // chaintrail's version
	Durability  string     `json:"durability,omitzero"`     // durability of request and outcome events
	Open        int        `json:"open_exchanges,omitzero"` // "close", "adopted": exchanges ended as stopped or lost
}

// WriterRef names a writer's last event.
type WriterRef struct {
	Writer uuid.UUID `json:"writer"`
	Seq    uint64    `json:"seq"`
	Hash   seal.Hash `json:"hash"`
}

// Plan is the whole of the interceptors in force at a backend.
type Plan struct {
	Digest  seal.Hash   `json:"digest"`
	Server  string      `json:"server"` // configured backend name
	Entries []PlanEntry `json:"entries"`
	Ignored []PlanNote  `json:"ignored,omitempty"` // descriptors that were not understood, and why
}

// PlanEntry is one interceptor in force, after overrides.
type PlanEntry struct {
	Host       string          `json:"host"`
	Name       string          `json:"name"`               // unique in the plan
	ListedAs   string          `json:"listed_as,omitzero"` // name at its server, where another server has the same one
	Version    string          `json:"version,omitzero"`
	Type       InterceptorType `json:"type"`
	Mode       Mode            `json:"mode"`
	FailOpen   bool            `json:"fail_open,omitzero"`
	Hooks      []Hook          `json:"hooks"`
	PriorityRq int32           `json:"priority_request,omitzero"`
	PriorityRs int32           `json:"priority_response,omitzero"`
	TimeoutMS  int64           `json:"timeout_ms,omitzero"`
	Canary     seal.Hash       `json:"canary_digest,omitzero"` // active for some only, in audit mode for the rest: digest of the rule
	Sample     *int            `json:"sample_bp,omitzero"`     // deferred work only: share of the messages, in hundredths of a percent
	Retries    int             `json:"retries,omitzero"`       // deferred work only
	BudgetMS   int64           `json:"budget_ms,omitzero"`     // deferred work only: invocation time per minute; 0: no bound
	Envelope   bool            `json:"envelope,omitzero"`      // request payloads go out as {method, params}
	Config     seal.Hash       `json:"config_digest,omitzero"`
	Origin     []string        `json:"origin"` // where it comes from: "descriptor" and the overrides in force
}

// OwnName is the name that the interceptor's server knows it by.
func (e *PlanEntry) OwnName() string {
	if e.ListedAs != "" {
		return e.ListedAs
	}
	return e.Name
}

// Hook says when an interceptor is invoked (SEP-2624).
type Hook struct {
	Events []string `json:"events"`
	Phase  Phase    `json:"phase"`
}

// PlanNote names a descriptor that is not in force.
type PlanNote struct {
	Host   string `json:"host"`
	Name   string `json:"name"`
	Reason string `json:"reason"` // "unknown_type", "unknown_mode", "sink_in_audit_mode", "malformed", "duplicate", "filtered", "incompatible"
}

// Gap declares what was never journaled.
type Gap struct {
	From   Time   `json:"from"`
	Until  Time   `json:"until"`
	Count  uint64 `json:"count"`  // exchanges
	Reason string `json:"reason"` // "shed" or "journal_error"
}

// Checkpoint records that the head of a ledger was signed.
type Checkpoint struct {
	Origin   string    `json:"origin"`
	Size     uint64    `json:"size"`     // leaves
	Root     seal.Hash `json:"root"`     // RFC 6962 section 2.1
	Position uint64    `json:"position"` // of the last message of the stream that was looked at
	Note     string    `json:"note"`     // the head as it was signed (C2SP tlog-checkpoint)
}

// Admin records an act on the system itself.
type Admin struct {
	Action string    `json:"action"` // closed set: "config", "config_refused", "policy", "trim", …
	Name   string    `json:"name,omitzero"`
	First  uint64    `json:"first,omitzero"`
	Last   uint64    `json:"last,omitzero"`
	Digest seal.Hash `json:"digest,omitzero"` // of a configuration: keyed with the tenant's key, since it may hold secrets
}
