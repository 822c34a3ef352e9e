package gateway

import (
	"errors"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// verdict is how an exchange ends.
type verdict struct {
	outcome schemas.Outcome // empty: it goes on
	cause   string
	text    string         // error text, for the open detail only
	rpc     *wire.RPCError // what the caller gets; nil: no error
	denial  *chain.Denial  // who blocked
	result  *chain.Result  // the run that blocked the request phase; its findings stand in the request event
	isError bool
}

// verdictOf tells what a run of the plan means; an empty outcome means that the exchange goes on.
func verdictOf(res *chain.Result, interrupt error) verdict {
	switch {
	case interrupt != nil:
		return verdictOfInterrupt(interrupt)
	case res.Status == schemas.StatusCancelled: // before the denial: who gave up was not denied
		return verdictOfInterrupt(errCancelled)
	case res.Denial != nil:
		return verdict{outcome: schemas.OutcomeDenied, rpc: denialError(res.Denial), denial: res.Denial}
	case res.Status == schemas.StatusSuccess || res.Status == schemas.StatusNotRun:
		return verdict{}
	}
	// A run that neither succeeded nor says why is a block: fail closed.
	d := &chain.Denial{Type: "gateway", Code: wire.CodeInternal, Message: "blocked by the interceptors", Reason: "run without a reason: " + string(res.Status)}
	return verdict{outcome: schemas.OutcomeDenied, rpc: denialError(d), denial: d}
}

func verdictOfInterrupt(why error) verdict {
	switch {
	case errors.Is(why, errStopped):
		return verdict{outcome: schemas.OutcomeStopped, cause: causeStopping}
	case errors.Is(why, errSessionEnded):
		return verdict{outcome: schemas.OutcomeCancelled, cause: causeSessionEnded}
	case errors.Is(why, errClientGone):
		return verdict{outcome: schemas.OutcomeCancelled, cause: causeClientGone}
	}
	return verdict{outcome: schemas.OutcomeCancelled}
}

var errClientGone = errors.New("the caller closed the response stream")
