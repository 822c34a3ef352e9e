package sinks

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sort"

	"github.com/chaintrail/chaintrail/schemas/seal"
)

// ErrNotRepeatable is returned when the messages of an open range are no longer what they were: the stream was trimmed
// or replaced before they were stored. Stored rows may be incomplete; compare them with the stream and the journals,
// then delete the cursor's intent.
var ErrNotRepeatable = errors.New("the messages of an open range changed in the stream")

// Sink stores what a [Pipeline] reads, in order. The pipeline calls it from one goroutine.
//
// A sink repeats by itself what may succeed later, for as long as ctx lasts; any error that it returns stops the
// pipeline, and everything not reported by Resume as stored is read again at the next start.
type Sink interface {
	// Resume returns how far the sink is with a stream. It is called once, before anything else.
	Resume(ctx context.Context, stream string) (State, error)
	// Classify gives its verdict on each entry, in order, by what was stored from positions before first and by the
	// entries before it.
	Classify(ctx context.Context, first uint64, entries []Entry) ([]Verdict, error)
	// Store stores the entries of a batch and its position, together or not at all. A batch whose range equals
	// State.Open is the repetition of one whose outcome is not known.
	Store(ctx context.Context, batch Batch) error
}

// State is how far a sink is with a stream.
type State struct {
	Position uint64 // everything up to here is stored or dead-lettered
	Leaves   uint64 // leaves up to Position
	Open     *Range // begun and perhaps stored: to be repeated exactly
}

// Range is a stretch of a stream that is stored as one.
type Range struct {
	First  uint64    `json:"first"` // position of the first message
	Last   uint64    `json:"last"`
	Count  int       `json:"count"`  // messages in the stream, skipped ones included
	Digest seal.Hash `json:"sha256"` // over positions and hashes of all of them
	// Skip lists first and last position of each stretch of messages that are not stored: undecodable, duplicate, fork.
	Skip [][2]uint64 `json:"skip,omitempty"`
}

// skips reports whether the message at position is not stored.
func (r *Range) skips(position uint64) bool {
	i := sort.Search(len(r.Skip), func(i int) bool { return r.Skip[i][1] >= position })
	return i < len(r.Skip) && r.Skip[i][0] <= position
}

// Batch is a range with the entries to be stored: those of Range.Skip and transient ones are left out. All were published in one month.
type Batch struct {
	Range
	Leaves  uint64 // leaves up to Range.Last
	Entries []Entry
}

// Verdict says what a sink knows about an entry.
type Verdict uint8

// The verdicts.
const (
	VerdictNew       Verdict = iota // not stored yet, its number follows the one before
	VerdictHole                     // not stored yet, but numbers before it are missing
	VerdictDuplicate                // stored already, with the same hash
	VerdictFork                     // something else was stored under its number: evidence of tampering or of a cloned disk
)

// Letter is a message that cannot be stored.
type Letter struct {
	Stream string
	Message
	Reason string // closed set: "undecodable", "fork", "refused"
	Table  string // "refused": where
	Err    error  // what exactly; may hold a piece of the data
}

// DeadLetters keeps what cannot be stored. Put may be called again with the same letter after a restart.
type DeadLetters interface {
	Put(ctx context.Context, letter Letter) error
}

// digest is over all entries of a range.
func digest(entries []Entry) seal.Hash {
	h := sha256.New()
	var position [8]byte
	for i := range entries {
		binary.BigEndian.PutUint64(position[:], entries[i].Position)
		h.Write(position[:])
		h.Write(entries[i].Hash[:])
	}
	var out seal.Hash
	h.Sum(out[:0])
	return out
}
