package gateway

import "fmt"

// Rules are what may change while a gateway runs, see [Gateway.Reload]. Zero values mean: transparent.
// An exchange keeps the rules that were in force when it began.
type Rules struct {
	DenyAs   DenyAs   // how a caller learns that a tool call was blocked
	Resolver Resolver // chooses interceptor servers for each request; nil: the plan in force is all
}

// DenyAs is the form of a denial. Only an interceptor's denial of tools/call has two of them: what the
// gateway itself refuses, and every other method, is answered with a JSON-RPC error.
type DenyAs string

// The forms of a denial.
const (
	DenyAsError  DenyAs = "error"  // a JSON-RPC error (SEP-2624), the default
	DenyAsResult DenyAs = "result" // a tool result with isError, which a model gets to read
)

func (r *Rules) validate() error {
	switch r.DenyAs {
	case "", DenyAsError, DenyAsResult:
		return nil
	}
	return fmt.Errorf("deny as %q: want %s or %s", r.DenyAs, DenyAsError, DenyAsResult)
}
