package chain

import (
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// Members of _meta that deferred work hands over.
const (
	metaInvocation = "io.chaintrail/invocationId" // the same on every try: an idempotency key
	metaExchange   = "io.chaintrail/exchange"
	metaPhase      = "io.chaintrail/phase"
	metaStage      = "io.chaintrail/stage" // name of the item that is the payload: before, after or a step
	metaAttempt    = "io.chaintrail/attempt"
)

// AppendMeta appends the _meta that goes with a deferred invocation, so that an interceptor can tell a repetition:
// attempt counts the tries from 1, and a zero exchange is left out.
func AppendMeta(b []byte, inv *schemas.Invocation, exchange uuid.UUID, phase schemas.Phase, attempt int) []byte {
	b = append(b, `{"`+metaInvocation+`":`...)
	b = appendString(b, inv.ID)
	if exchange != uuid.Nil() {
		b = append(b, `,"`+metaExchange+`":`...)
		b = appendString(b, exchange.String())
	}
	b = appendString(append(b, `,"`+metaPhase+`":`...), string(phase))
	b = appendString(append(b, `,"`+metaStage+`":`...), inv.Input)
	b = append(b, `,"`+metaAttempt+`":`...)
	return append(appendInt(b, int64(attempt)), '}')
}
