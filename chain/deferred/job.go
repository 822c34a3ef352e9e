package deferred

import (
	"context"
	"errors"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Job is one event to work on, handed out at least once.
type Job struct {
	Event schemas.Event
	Hash  seal.Hash

	// Items returns the open items of the event, whole; those that were erased are missing. An error
	// marked by retry.Permanent says that they can never be read.
	Items func(ctx context.Context) ([]schemas.EntryItem, error)
	// Ack returns when the source has noted that the job is done.
	Ack func(ctx context.Context) error
	// Nak asks for the job to be handed out again, not before delay has passed.
	Nak func(delay time.Duration) error
	// InProgress keeps the job from being handed out again while it is worked on.
	InProgress func() error
}

// Source hands out jobs.
type Source interface {
	// Next waits for a job; it returns an error only when ctx is done or the source is closed. It is
	// called by one goroutine at a time.
	Next(ctx context.Context) (Job, error)
}

// Opener returns the true value behind a snapshot item.
type Opener func(item schemas.EntryItem) ([]byte, error)

// Target is one interceptor that work is deferred to, as the plan in force describes it.
type Target struct {
	Entry  schemas.PlanEntry
	Config jsonx.Value // nil: none
}

// ErrNotHere is returned by a [Connect] for a host that another process serves, such as an interceptor inside
// a gateway. No worker is run for it.
var ErrNotHere = errors.New("the interceptor server is not reachable from this process")

// ErrTooLarge is the reason of a malformed result whose answer is larger than allowed.
var ErrTooLarge = errors.New("the answer is too large")

// ErrPayload is the reason of a failed invocation whose payload is there but cannot be used.
var ErrPayload = errors.New("the payload cannot be used")
