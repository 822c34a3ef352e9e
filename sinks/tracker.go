package sinks

import (
	"slices"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Bounds of a [Tracker].
const (
	trackedWriters = 1024
	trackedHashes  = 1024 // for each writer
	trackedMissing = 256  // for each writer
)

// Tracker remembers which events of which writers were seen, for a sink that cannot look them up. It forgets the writer
// not seen for longest beyond 1,024, and compares hashes of the last 1,024 events of a writer only, and none after a
// restart; an older number that comes again counts as duplicate. Its zero value is ready; its JSON form keeps it over a
// restart. Not for concurrent use.
type Tracker struct {
	Writers []*tracked `json:"writers,omitempty"` // last seen last
}

type tracked struct {
	ID      uuid.UUID   `json:"writer"`
	Last    uint64      `json:"last"`
	Missing [][2]uint64 `json:"missing,omitempty"` // first and last of each stretch not seen
	Hashes  []seal.Hash `json:"-"`                 // ring, by seq modulo its bound
}

// Seen gives the verdict on an event and remembers it.
func (t *Tracker) Seen(writer uuid.UUID, seq uint64, hash seal.Hash) Verdict {
	w := t.writer(writer)
	slot := int(seq % trackedHashes)
	for len(w.Hashes) <= slot {
		w.Hashes = append(w.Hashes, seal.Hash{})
	}
	switch {
	case seq == w.Last+1:
		w.Last, w.Hashes[slot] = seq, hash
		return VerdictNew
	case seq > w.Last:
		clear(w.Hashes[:min(len(w.Hashes), trackedHashes)])
		w.miss(w.Last+1, seq-1)
		w.Last, w.Hashes[slot] = seq, hash
		return VerdictHole
	case w.fill(seq):
		if w.Last-seq < trackedHashes {
			w.Hashes[slot] = hash
		}
		return VerdictNew
	case w.Last-seq < trackedHashes && !w.Hashes[slot].IsZero() && w.Hashes[slot] != hash:
		return VerdictFork
	default:
		return VerdictDuplicate
	}
}

func (t *Tracker) writer(id uuid.UUID) *tracked {
	n := len(t.Writers)
	if n > 0 && t.Writers[n-1].ID == id {
		return t.Writers[n-1]
	}
	i := slices.IndexFunc(t.Writers, func(w *tracked) bool { return w.ID == id })
	w := &tracked{ID: id}
	switch {
	case i >= 0:
		w = t.Writers[i]
		t.Writers = slices.Delete(t.Writers, i, i+1)
	case n >= trackedWriters:
		t.Writers = slices.Delete(t.Writers, 0, 1)
	}
	t.Writers = append(t.Writers, w)
	return w
}

// miss notes numbers that were not seen. Beyond its bound the two oldest stretches become one: to take a number twice is
// better than to lose it.
func (w *tracked) miss(first, last uint64) {
	w.Missing = append(w.Missing, [2]uint64{first, last})
	if len(w.Missing) > trackedMissing {
		w.Missing[1][0] = w.Missing[0][0]
		w.Missing = slices.Delete(w.Missing, 0, 1)
	}
}

// fill reports whether seq was missing, and notes that it is no longer.
func (w *tracked) fill(seq uint64) bool {
	i := slices.IndexFunc(w.Missing, func(m [2]uint64) bool { return m[0] <= seq && seq <= m[1] })
	if i < 0 {
		return false
	}
	m := w.Missing[i]
	var rest [][2]uint64
	if m[0] < seq {
		rest = append(rest, [2]uint64{m[0], seq - 1})
	}
	if seq < m[1] {
		rest = append(rest, [2]uint64{seq + 1, m[1]})
	}
	w.Missing = slices.Replace(w.Missing, i, i+1, rest...)
	return true
}
