package bus

import (
	"fmt"
	"slices"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Verdict says what an event's number means to a reader that has seen others of its writer.
type Verdict int

// The verdicts.
const (
	VerdictNew       Verdict = iota // the next one, or one that fills a hole
	VerdictHole                     // new, but numbers before it are missing: alarm, and refill from the journal
	VerdictDuplicate                // seen before with the same hash: skip and count
	VerdictOld                      // seen before, too long ago to compare hashes: skip and count
	VerdictFork                     // seen before with another hash: alarm
	VerdictInvalid                  // no writer gives this number
)

// String is for logs and metrics.
func (v Verdict) String() string {
	names := [...]string{"new", "hole", "duplicate", "old", "fork", "invalid"}
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("verdict %d", int(v))
	}
	return names[v]
}

// recentHashes bounds how many numbers of one writer are compared by hash; 32 KiB a writer at most.
const recentHashes = 1024

// Range is a range of numbers, both ends included.
type Range struct{ First, Last uint64 }

// SeqSet keeps, for each writer, which numbers were seen. Its size grows with the writers and the holes,
// not with the events. The zero value is an empty set. Not for concurrent use.
type SeqSet struct {
	writers map[uuid.UUID]*seqs
}

type seqs struct {
	ranges []Range // sorted, apart by at least one
	recent map[uint64]seal.Hash
}

// Add notes an event and says what it is. The hash of the first one seen under a number stays.
func (s *SeqSet) Add(writer uuid.UUID, seq uint64, hash seal.Hash) Verdict {
	if seq == 0 || seq == ^uint64(0) {
		return VerdictInvalid
	}
	if s.writers == nil {
		s.writers = map[uuid.UUID]*seqs{}
	}
	w := s.writers[writer]
	if w == nil {
		w = &seqs{recent: map[uint64]seal.Hash{}}
		s.writers[writer] = w
	}
	if w.has(seq) {
		switch known, ok := w.recent[seq]; {
		case !ok:
			return VerdictOld
		case known != hash:
			return VerdictFork
		}
		return VerdictDuplicate
	}
	before := w.last()
	w.insert(seq)
	if seq > before || before-seq < recentHashes {
		w.recent[seq] = hash
	}
	if seq > recentHashes && seq > before {
		w.forget(before, seq)
	}
	if seq > before+1 {
		return VerdictHole
	}
	return VerdictNew
}

// forget drops the hashes that fall out of the window when the last number goes from before to last.
func (w *seqs) forget(before, last uint64) {
	if last-before > recentHashes {
		for seq := range w.recent {
			if last-seq >= recentHashes {
				delete(w.recent, seq)
			}
		}
		return
	}
	for n := before + 1; n <= last; n++ {
		if n > recentHashes {
			delete(w.recent, n-recentHashes)
		}
	}
}

// Last returns the highest number seen of a writer, 0 for none.
func (s *SeqSet) Last(writer uuid.UUID) uint64 {
	if w := s.writers[writer]; w != nil {
		return w.last()
	}
	return 0
}

// Holes returns the numbers from 1 to the highest seen that are missing.
func (s *SeqSet) Holes(writer uuid.UUID) []Range {
	w := s.writers[writer]
	if w == nil {
		return nil
	}
	var holes []Range
	next := uint64(1)
	for _, r := range w.ranges {
		if r.First > next {
			holes = append(holes, Range{next, r.First - 1})
		}
		next = r.Last + 1
	}
	return holes
}

// Count returns how many numbers of a writer were seen.
func (s *SeqSet) Count(writer uuid.UUID) (n uint64) {
	if w := s.writers[writer]; w != nil {
		for _, r := range w.ranges {
			n += r.Last - r.First + 1
		}
	}
	return n
}

// Writers returns the writers seen, in the order of their ids.
func (s *SeqSet) Writers() []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(s.writers))
	for id := range s.writers {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, uuid.UUID.Compare)
	return ids
}

// Forget drops a writer, for one whose close event was seen and whose stream part is trimmed.
func (s *SeqSet) Forget(writer uuid.UUID) { delete(s.writers, writer) }

func (w *seqs) last() uint64 {
	if len(w.ranges) == 0 {
		return 0
	}
	return w.ranges[len(w.ranges)-1].Last
}

// find returns the first range that ends at seq or later.
func (w *seqs) find(seq uint64) int {
	if n := len(w.ranges); n > 0 && seq > w.ranges[n-1].Last {
		return n
	}
	i, _ := slices.BinarySearchFunc(w.ranges, seq, func(r Range, seq uint64) int {
		if r.Last < seq {
			return -1
		}
		return 1
	})
	return i
}

func (w *seqs) has(seq uint64) bool {
	i := w.find(seq)
	return i < len(w.ranges) && w.ranges[i].First <= seq
}

func (w *seqs) insert(seq uint64) {
	i := w.find(seq)
	joinsLeft := i > 0 && w.ranges[i-1].Last+1 == seq
	joinsRight := i < len(w.ranges) && w.ranges[i].First == seq+1
	switch {
	case joinsLeft && joinsRight:
		w.ranges[i-1].Last = w.ranges[i].Last
		w.ranges = slices.Delete(w.ranges, i, i+1)
	case joinsLeft:
		w.ranges[i-1].Last = seq
	case joinsRight:
		w.ranges[i].First = seq
	default:
		w.ranges = slices.Insert(w.ranges, i, Range{seq, seq})
	}
}

// seqsJSON is the persistent form: the hash of the last event stands for all of them.
type seqsJSON struct {
	Ranges   [][2]uint64 `json:"ranges"`
	LastHash seal.Hash   `json:"last_hash,omitzero"`
}

// MarshalJSON keeps the ranges and each writer's last hash; older events become [VerdictOld].
func (s *SeqSet) MarshalJSON() ([]byte, error) {
	out := make(map[string]seqsJSON, len(s.writers))
	for id, w := range s.writers {
		j := seqsJSON{Ranges: make([][2]uint64, len(w.ranges)), LastHash: w.recent[w.last()]}
		for i, r := range w.ranges {
			j.Ranges[i] = [2]uint64{r.First, r.Last}
		}
		out[id.String()] = j
	}
	return jsonx.MarshalDeterministic(out)
}

// UnmarshalJSON replaces the set; ranges that are not in order or overlap are an error.
func (s *SeqSet) UnmarshalJSON(b []byte) error {
	var in map[string]seqsJSON
	if err := jsonx.UnmarshalStrict(b, &in); err != nil {
		return fmt.Errorf("set of numbers: %w", err)
	}
	writers := make(map[uuid.UUID]*seqs, len(in))
	for text, j := range in {
		id, err := uuid.Parse(text)
		if err != nil {
			return fmt.Errorf("set of numbers: writer %.100q: %w", text, err)
		}
		if writers[id] != nil {
			return fmt.Errorf("set of numbers: writer %s is there twice", id)
		}
		w := &seqs{recent: map[uint64]seal.Hash{}}
		end := uint64(0)
		for i, r := range j.Ranges {
			if r[0] == 0 || r[1] < r[0] || (i > 0 && r[0] <= end+1) || r[1] == ^uint64(0) {
				return fmt.Errorf("set of numbers: writer %s: range %d-%d is out of order", id, r[0], r[1])
			}
			w.ranges, end = append(w.ranges, Range{r[0], r[1]}), r[1]
		}
		if end > 0 && !j.LastHash.IsZero() {
			w.recent[end] = j.LastHash
		}
		writers[id] = w
	}
	s.writers = writers
	return nil
}
