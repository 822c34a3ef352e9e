package exchange

import (
	"errors"
	"fmt"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Options are what a [Runner] is made of.
type Options struct {
	Plan       func() *chain.Plan       // required: the plan in force at each exchange, such as Set.Current; nil from it: none
	Recorder   chain.Recorder           // nil: nothing is recorded
	Background *chain.Background        // does the deferred work; required without a Recorder, unused with one
	Server     string                   // required: configured name of the MCP server that is asked, for the record
	Request    schemas.Direction        // required: of the request phase; the response phase has the other one
	Events     []string                 // patterns of the methods that are intercepted; empty: all
	Skip       func(method string) bool // methods that never go through the plan; nil: wire.NeverChained
	Key        seal.Key                 // pseudonym key of the tenant
	Tenant     string
	Gateway    string // configured name of this process
}

// Request is one operation that is asked for.
type Request struct {
	Method      string
	Params      jsonx.Value // an object, or nil
	ID          jsonx.Value // JSON-RPC id, if the caller knows it
	Session     string      // MCP session id; empty: none
	Principal   chain.Principal
	VerifiedBy  string // configured name of what verified the principal; empty: asserted only
	Traceparent string // W3C trace context; empty: that of _meta, if it has one
	Protocol    string // MCP version of the session
	Transport   string // "http", "stdio" or "inprocess"
	ClientName  string
	ClientVer   string
	// Accept takes a result that an interceptor changed, before the outcome is recorded; its error ends the exchange.
	// It may be nil.
	Accept func(result jsonx.Value) error
}

// ErrNotRecorded is returned when the recorder did not take an event: a request was then not made, and a result is kept
// back.
var ErrNotRecorded = errors.New("the audit trail does not accept events")

// Runner runs exchanges. All methods are concurrent.
type Runner struct{ opts Options }

// New returns a runner.
func New(opts Options) (*Runner, error) {
	switch {
	case opts.Plan == nil:
		return nil, errors.New("exchange: no plan")
	case opts.Recorder == nil && opts.Background == nil:
		return nil, errors.New("exchange: neither a recorder nor a background for deferred work")
	case opts.Server == "":
		return nil, errors.New("exchange: the server has no name")
	case opts.Request != schemas.Sending && opts.Request != schemas.Receiving:
		return nil, fmt.Errorf("exchange: direction %q of requests is neither sending nor receiving", opts.Request)
	}
	if opts.Skip == nil {
		opts.Skip = wire.NeverChained
	}
	return &Runner{opts: opts}, nil
}

// Due reports whether a method has to go through [Runner.Do]: because it is recorded, or an interceptor matches.
func (r *Runner) Due(method string) bool {
	if r.opts.Recorder != nil {
		return !r.opts.Skip(method)
	}
	plan := r.opts.Plan()
	return r.chained(plan, method, schemas.PhaseRequest) || r.chained(plan, method, schemas.PhaseResponse)
}

// chained reports whether a message goes through the plan.
func (r *Runner) chained(plan *chain.Plan, method string, phase schemas.Phase) bool {
	if plan == nil || r.opts.Skip(method) {
		return false
	}
	if len(r.opts.Events) > 0 {
		listed := false
		for _, pattern := range r.opts.Events {
			listed = listed || interceptor.Match(pattern, method, phase)
		}
		if !listed {
			return false
		}
	}
	return plan.Matches(method, phase)
}

func (r *Runner) direction(phase schemas.Phase) schemas.Direction {
	if phase == schemas.PhaseRequest {
		return r.opts.Request
	}
	if r.opts.Request == schemas.Sending {
		return schemas.Receiving
	}
	return schemas.Sending
}
