package verify

import (
	"math"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// noLeaf is the column leaf of an event that is none.
const noLeaf uint64 = math.MaxUint64

// EventColumns are the typed columns of the table events.
type EventColumns struct {
	Stream    string       `ch:"stream"`
	Shard     uint16       `ch:"shard"`
	Position  uint64       `ch:"position"`
	Writer    uuid.UUID    `ch:"writer"`
	Seq       uint64       `ch:"seq"`
	Hash      seal.Hash    `ch:"hash"`
	Leaf      uint64       `ch:"leaf"`
	Kind      string       `ch:"kind"`
	Event     uuid.UUID    `ch:"event_id"`
	Exchange  uuid.UUID    `ch:"exchange_id"`
	Time      schemas.Time `ch:"time"`
	Published schemas.Time `ch:"published"`
	Tenant    string       `ch:"tenant"`
}

// EventRow is a row of the table events, or an event of another source in its form.
type EventRow struct {
	EventColumns
	Raw []byte `ch:"raw"`
}

// Place are the columns with which every projection begins.
type Place struct {
	Tenant    string       `ch:"tenant"`
	Time      schemas.Time `ch:"time"`
	Published schemas.Time `ch:"published"`
	Stream    string       `ch:"stream"`
	Position  uint64       `ch:"position"`
	Writer    uuid.UUID    `ch:"writer"`
	Seq       uint64       `ch:"seq"`
	Event     uuid.UUID    `ch:"event_id"`
	Exchange  uuid.UUID    `ch:"exchange_id"`
}

// InterceptionRow is a row of the table interceptions.
type InterceptionRow struct {
	Place
	Kind            string       `ch:"kind"`
	Call            uuid.UUID    `ch:"call_id"`
	Parent          uuid.UUID    `ch:"parent_id"`
	Gateway         string       `ch:"gateway"`
	Server          string       `ch:"server"`
	Method          string       `ch:"event"`
	Phase           string       `ch:"phase"`
	Direction       string       `ch:"direction"`
	Reverse         bool         `ch:"reverse"`
	Target          string       `ch:"target"`
	TargetRef       string       `ch:"target_ref"`
	Session         string       `ch:"session"`
	RequestID       string       `ch:"request_id"`
	StateIn         string       `ch:"state_in"`
	StateOut        string       `ch:"state_out"`
	PrincipalType   string       `ch:"principal_type"`
	PrincipalRef    string       `ch:"principal_ref"`
	VerifiedBy      string       `ch:"verified_by"`
	TraceID         string       `ch:"trace_id"`
	SpanID          string       `ch:"span_id"`
	ProtocolVersion string       `ch:"protocol_version"`
	Transport       string       `ch:"transport"`
	Status          string       `ch:"status"`
	Outcome         string       `ch:"outcome"`
	AbortedAt       string       `ch:"aborted_at"`
	AbortType       string       `ch:"abort_type"`
	AbortPhase      string       `ch:"abort_phase"`
	Cause           string       `ch:"cause"`
	Errors          uint32       `ch:"errors"`
	Warnings        uint32       `ch:"warnings"`
	Infos           uint32       `ch:"infos"`
	Modified        bool         `ch:"modified"`
	IsError         bool         `ch:"is_error"`
	ErrorCode       int64        `ch:"error_code"`
	PlanDigest      seal.Hash    `ch:"plan_digest"`
	ChainUS         int64        `ch:"chain_us"`
	BackendUS       int64        `ch:"backend_us"`
	TotalUS         int64        `ch:"total_us"`
	StartedAt       schemas.Time `ch:"started_at"`
	BytesBefore     uint64       `ch:"bytes_before"`
	BytesAfter      uint64       `ch:"bytes_after"`
	Interceptors    uint32       `ch:"interceptors"`
}

// Maybe is a boolean that may be unknown: -1, 0 or 1.
type Maybe int8

// InvocationRow is a row of the table invocations.
type InvocationRow struct {
	Place
	Kind         string    `ch:"kind"`
	Interception uuid.UUID `ch:"interception"`
	ID           string    `ch:"id"`
	Interceptor  string    `ch:"interceptor"`
	Version      string    `ch:"version"`
	Host         string    `ch:"host"`
	Type         string    `ch:"type"`
	Mode         string    `ch:"mode"`
	ModeReason   string    `ch:"mode_reason"`
	FailOpen     bool      `ch:"fail_open"`
	Priority     int32     `ch:"priority"`
	PlanOrder    uint32    `ch:"plan_order"`
	State        string    `ch:"state"`
	SkipReason   string    `ch:"skip_reason"`
	Valid        Maybe     `ch:"valid"`
	Severity     string    `ch:"severity"`
	Modified     Maybe     `ch:"modified"`
	Recorded     Maybe     `ch:"recorded"`
	Input        string    `ch:"input"`
	Output       string    `ch:"output"`
	Errors       uint32    `ch:"errors"`
	Warnings     uint32    `ch:"warnings"`
	Infos        uint32    `ch:"infos"`
	ErrorCode    int64     `ch:"error_code"`
	Attempt      uint32    `ch:"attempt"`
	DurationUS   int64     `ch:"duration_us"`
	Server       string    `ch:"server"`
	Method       string    `ch:"event"`
	Phase        string    `ch:"phase"`
	Direction    string    `ch:"direction"`
	Target       string    `ch:"target"`
}

// PlanRow is a row of the table plans.
type PlanRow struct {
	Place
	Digest  seal.Hash `ch:"digest"`
	Server  string    `ch:"server"`
	Entries uint32    `ch:"entries"`
	Plan    string    `ch:"plan"`
}

// ItemColumns are what the tables bodies and open_items share.
type ItemColumns struct {
	Place
	Kind  string    `ch:"kind"`
	Role  string    `ch:"role"`
	Index uint32    `ch:"idx"`
	Part  uint32    `ch:"part"`
	Parts uint32    `ch:"parts"`
	Keep  string    `ch:"keep"`
	Salt  seal.Salt `ch:"salt"`
	Data  string    `ch:"data"`
}

// ContextRow is a row of the table open_items.
type ContextRow struct {
	ItemColumns
	ContextColumns
}

// ContextColumns are the typed columns of the table open_items that are members of its data.
type ContextColumns struct {
	SessionID       string `ch:"session_id"`
	RequestID       string `ch:"request_id"`
	Method          string `ch:"method"`
	Target          string `ch:"target"`
	PrincipalType   string `ch:"principal_type"`
	Principal       string `ch:"principal"`
	ClientName      string `ch:"client_name"`
	ClientVersion   string `ch:"client_version"`
	ClientAddress   string `ch:"client_address"`
	UserAgent       string `ch:"user_agent"`
	ProtocolVersion string `ch:"protocol_version"`
	Reason          string `ch:"reason"`
}
