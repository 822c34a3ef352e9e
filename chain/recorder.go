package chain

import (
	"context"

	"github.com/chaintrail/chaintrail/schemas"
)

// Recorder takes what happened. It is satisfied by the outbox and by decorators before it.
type Recorder interface {
	// Record returns when the record is durable as its event class demands, with rec.Event's
	// identity, rec.Hash and rec.Shed filled in. An error means that nothing was recorded: a
	// request MUST then not be forwarded, and a result MUST NOT be answered as if it had been.
	// Record may be called concurrently; it takes over rec.Items and their bytes.
	Record(ctx context.Context, rec *schemas.Record) error
}
