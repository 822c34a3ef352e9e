package chain

import (
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Input is one message on its way through a plan.
type Input struct {
	Interception uuid.UUID // id of the event that will record this run
	Event        string    // MCP method or configured event name
	Phase        schemas.Phase
	Direction    schemas.Direction
	Payload      jsonx.Value // params of a request, result of a response; never modified in place
	Context      Context
	Tenant       string // whose message it is; empty: not known
	Target       string // tool or prompt name, or resource URI, in both phases; empty: none
	KeepSteps    bool   // the result holds every payload between mutators, also where no deferred work needs it
}

// Context is what an interceptor is told about the caller (SEP-2624 context).
type Context struct {
	Principal Principal `json:"principal,omitzero"`
	TraceID   string    `json:"traceId,omitzero"`
	SpanID    string    `json:"spanId,omitzero"`
	Timestamp time.Time `json:"timestamp"` // arrival of the message
	SessionID string    `json:"sessionId,omitzero"`
	// Server and Target are ours: the configured name of the MCP server, and of a response the tool, prompt or
	// resource that was asked for, which the result itself does not tell.
	Server string `json:"io.chaintrail/server,omitzero"`
	Target string `json:"io.chaintrail/target,omitzero"`
}

// Principal is who calls.
type Principal struct {
	Type   string            `json:"type"` // "user", "service" or "anonymous"
	ID     string            `json:"id,omitzero"`
	Claims map[string]string `json:"claims,omitempty"`
}

// Result is what a run of a plan decided. A nil Denial means: go on with Payload.
type Result struct {
	Status      schemas.Status
	Payload     jsonx.Value // the input's own slice when Modified is false
	Modified    bool
	Denial      *Denial
	Invocations []schemas.Invocation       // by plan order; deferred ones included, with Input set
	Details     []schemas.InvocationDetail // what they said; Order joins with Invocations
	Steps       []Step                     // payloads between mutators that an invocation's Input or Output names
	PlanDigest  seal.Hash
	Errors      int
	Warnings    int
	Infos       int
	Duration    time.Duration
}

// PayloadOf returns the payload that an invocation's Input or Output names; nil if the result does not hold it.
func (r *Result) PayloadOf(in *Input, name string) jsonx.Value {
	switch role, index := schemas.ParseItemName(name); role {
	case schemas.RoleBefore:
		return in.Payload
	case schemas.RoleAfter:
		if r.Modified {
			return r.Payload
		}
	case schemas.RoleStep:
		for _, step := range r.Steps {
			if step.Index == index {
				return step.Payload
			}
		}
	default:
	}
	return nil
}

// Step is the payload after the mutator with order Index; it becomes the open item payload.step.Index. On a denied
// run the last payload that a stage had is a step too, because nothing went on as payload.after.
type Step struct {
	Index   int
	Payload jsonx.Value
}

// Denial says who ended a run and why.
type Denial struct {
	Interceptor string // empty with StatusCancelled
	Type        string // "validation", "mutation" or "timeout"; empty with StatusCancelled
	Phase       schemas.Phase
	Code        int    // JSON-RPC code for the caller: -32602, -32603 or -32000 (SEP-2624 errors)
	Message     string // short text for the caller
	Data        jsonx.Value
	Reason      string // for the record only
}
