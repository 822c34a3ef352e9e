// Package sinks moves what the stream holds to where people use it.
//
// A consumer reads a stream by position through a [Source], never by acknowledgement: what it has
// done is its cursor, kept by compare-and-set in [Cursors]. A restart or a second consumer therefore
// repeats exactly what is open, and nothing else.
package sinks

import (
	"context"
	"errors"
	"time"
)

// Message is one message of a stream at its position.
type Message struct {
	Position  uint64 // stream sequence, from 1
	Subject   string
	Header    map[string][]string
	Data      []byte
	Published time.Time // the stream's time of storing, UTC
}

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
var ErrConflict = errors.New("another consumer moved this cursor")

// Cursors keeps small values by compare-and-set.
type Cursors interface {
	// Get returns the value and its revision; a key that was never put has revision 0.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Put stores value if the key still has the given revision (0: does not exist).
	Put(ctx context.Context, key string, value []byte, revision uint64) (newRevision uint64, err error)
}
