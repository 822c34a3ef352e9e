package gateway

import (
	"fmt"

	"github.com/chaintrail/chaintrail/chain"
)

// Rules are what may change while a gateway runs, see [Gateway.Reload]. Zero values mean: transparent.
// An exchange keeps the rules that were in force when it began.
type Rules struct {
	DenyAs   DenyAs   // how a caller learns that a tool call was blocked
	Resolver Resolver // chooses interceptor servers for each request; nil: the plan in force is all
	Events   []string // patterns, such as "tools/*", of methods that are chained at all; empty: every one

	Expose Directory // interceptors that clients may list and invoke themselves (SEP-2624); nil: such requests go to the backend

	Principal chain.Principal // who calls where a request tells of nobody; the zero value: it is anonymous
	Trace     Trace           // of requests that belong to none; empty: TraceHeader

	ServerInfo    ServerInfo    // what clients are told of the server, in place of what it says itself
	RepairSchemas RepairSchemas // of tools in lists that no interceptor changed; one that was changed is always repaired
}

// DenyAs is the form of a denial. Only an interceptor's denial of tools/call has two of them: what the
// gateway itself refuses, and every other method, is answered with a JSON-RPC error.
type DenyAs string

// The forms of a denial.
const (
	DenyAsError  DenyAs = "error"  // a JSON-RPC error (SEP-2624), the default
	DenyAsResult DenyAs = "result" // a tool result with isError, which a model gets to read
)

// ServerInfo replaces the members that are not empty.
type ServerInfo struct{ Name, Version string }

// RepairSchemas says when a tool whose inputSchema is missing or no object schema gets {"type":"object"}.
type RepairSchemas string

// When schemas are repaired.
const (
	RepairAuto   RepairSchemas = "auto" // where the client speaks 2026-07-28 or later, the default
	RepairAlways RepairSchemas = "always"
	RepairNever  RepairSchemas = "never"
)

// chains reports whether an event may be chained.
func (r *Rules) chains(event string) bool {
	return len(r.Events) == 0 || oneOf(r.Events, event)
}

func (r *Rules) validate() error {
	switch r.RepairSchemas {
	case "", RepairAuto, RepairAlways, RepairNever:
	default:
		return fmt.Errorf("repair schemas %q: want %s, %s or %s", r.RepairSchemas, RepairAuto, RepairAlways, RepairNever)
	}
	switch r.Trace {
	case "", TraceHeader, TraceForward, TraceOff:
	default:
		return fmt.Errorf("trace %q: want %s, %s or %s", r.Trace, TraceHeader, TraceForward, TraceOff)
	}
	switch r.DenyAs {
	case "", DenyAsError, DenyAsResult:
		return nil
	}
	return fmt.Errorf("deny as %q: want %s or %s", r.DenyAs, DenyAsError, DenyAsResult)
}
