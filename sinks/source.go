// Package sinks moves what the stream holds to where people use it.
//
// A consumer reads a stream by position through a [Source], never by acknowledgement: what it has
// done is its cursor, kept by compare-and-set in [Cursors]. A restart or a second consumer therefore
// repeats exactly what is open, and nothing else.
package sinks

import (
	"context"

	"github.com/chaintrail/chaintrail/schemas"
)

// Message is one message of a stream at its position. It is shared with package bus, which may not import this one.
type Message = schemas.Message

// Source reads one stream by position.
type Source interface {
	// Name is the stream's name.
	Name() string
	// Read returns the messages after position after, in order, at most maxMessages and about
	// maxBytes of data, as many as are there at once; it waits until there is at least one or ctx
	// ends. Positions may have holes where the stream was trimmed. Not for concurrent use.
	Read(ctx context.Context, after uint64, maxMessages, maxBytes int) ([]Message, error)
}

// ErrConflict is returned by Cursors.Put when another consumer was faster; the caller MUST stop.
var ErrConflict = schemas.ErrConflict

// Cursors keeps small values by compare-and-set.
type Cursors interface {
	// Get returns the value and its revision; a key that was never put has revision 0.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Put stores value if the key still has the given revision (0: does not exist).
	Put(ctx context.Context, key string, value []byte, revision uint64) (newRevision uint64, err error)
}
