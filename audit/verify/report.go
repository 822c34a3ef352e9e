package verify

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// Check names what a finding is about. The set is closed.
type Check string

// The checks.
const (
	CheckHash        Check = "hash"         // sealed bytes and the column hash differ
	CheckDecode      Check = "decode"       // the sealed bytes are no event
	CheckColumn      Check = "column"       // a typed column differs from the sealed bytes
	CheckRowMissing  Check = "row_missing"  // a row that must be there is not
	CheckRowForeign  Check = "row_foreign"  // a row that no sealed event explains
	CheckRowDouble   Check = "row_double"   // a row is there more than once
	CheckLink        Check = "link"         // an event does not name the hash of the one before
	CheckNumbering   Check = "numbering"    // numbers of a writer are missing
	CheckFork        Check = "fork"         // a writer has two events with one number
	CheckWriter      Check = "writer"       // a writer's beginning or end is not as others tell
	CheckLeaf        Check = "leaf"         // another event was sealed at this place
	CheckTree        Check = "tree"         // the events do not have the root of a signed head
	CheckCutTail     Check = "cut_tail"     // a signed head has more events than there are
	CheckSignature   Check = "signature"    // a head is not signed by a known key, or is no head
	CheckConsistency Check = "consistency"  // two signed heads contradict each other
	CheckTiles       Check = "tiles"        // the ledger's tiles do not fit their signed head
	CheckItem        Check = "item"         // an open item is not what its event committed to
	CheckItemMissing Check = "item_missing" // an open item is gone, and nothing tells that it was erased
)

// Checks lists every check.
func Checks() []Check {
	return []Check{
		CheckHash, CheckDecode, CheckColumn, CheckRowMissing, CheckRowForeign, CheckRowDouble, CheckLink, CheckNumbering, CheckFork,
		CheckWriter, CheckLeaf, CheckTree, CheckCutTail, CheckSignature, CheckConsistency, CheckTiles, CheckItem, CheckItemMissing,
	}
}

// maxFindings bounds a report; beyond it findings are counted only.
const maxFindings = 1000

// Finding is evidence that something was changed or lost, with its place as far as it is known.
type Finding struct {
	Check    Check     `json:"check"`
	Table    string    `json:"table,omitzero"`
	Stream   string    `json:"stream,omitzero"`
	Position uint64    `json:"position,omitzero"` // in the stream
	Writer   uuid.UUID `json:"writer,omitzero"`
	Seq      uint64    `json:"seq,omitzero"`
	Column   string    `json:"column,omitzero"`
	Item     string    `json:"item,omitzero"` // see schemas.ItemName
	Text     string    `json:"text"`
}

// Place says where, for people.
func (f *Finding) Place() string {
	text := f.Table
	if f.Stream != "" {
		text += " " + f.Stream
	}
	if f.Position != 0 {
		text += fmt.Sprintf(" %d", f.Position)
	}
	if f.Writer != uuid.Nil() {
		text += fmt.Sprintf(" writer %s seq %d", f.Writer, f.Seq)
	}
	return text
}

// Verdict is the result in one word.
type Verdict string

// The verdicts.
const (
	VerdictFindings   Verdict = "tampered"        // there are findings
	VerdictConsistent Verdict = "self-consistent" // it fits together, but nothing from outside says that it was always so
	VerdictProven     Verdict = "proven"          // it fits keys and a head that were kept outside of the data
)

// WriterState is how a writer's chain ends.
type WriterState string

// The states of writers.
const (
	WriterClosed  WriterState = "closed"
	WriterAdopted WriterState = "adopted" // declared dead by another writer
	WriterOpen    WriterState = "open"    // runs, or is not declared dead yet
)

// WriterReport is what was seen of one writer.
type WriterReport struct {
	Writer uuid.UUID    `json:"writer"`
	Tenant string       `json:"tenant"`
	State  WriterState  `json:"state"`
	Seq    uint64       `json:"seq"` // of its last event
	Began  schemas.Time `json:"began"`
}

// HeadReport is a signed head that the events were compared with.
type HeadReport struct {
	Origin string    `json:"origin"`
	Size   uint64    `json:"size"`
	Time   time.Time `json:"time"`
	Clock  string    `json:"clock,omitzero"`
	Source string    `json:"source"`
}

// StreamReport is what was seen of one stream.
type StreamReport struct {
	Stream   string `json:"stream"`
	Events   uint64 `json:"events"`
	Leaves   uint64 `json:"leaves"`
	Heads    uint64 `json:"heads"`    // signed heads that were compared
	Unsealed uint64 `json:"unsealed"` // events younger than the newest head: chained, not sealed
	// Newest is the largest head that fits, Anchor the largest of those from outside.
	Newest *HeadReport `json:"newest,omitzero"`
	Anchor *HeadReport `json:"anchor,omitzero"`
}

// ItemReport counts open items.
type ItemReport struct {
	Checked uint64 `json:"checked"` // there, and what the event committed to
	Empty   uint64 `json:"empty"`   // of them: kept as digest only, or not at all
	Erased  uint64 `json:"erased"`
	Pending uint64 `json:"pending"` // of events so young that their items may not be stored yet
	Bytes   uint64 `json:"bytes"`
}

// Report is the result of a verification.
type Report struct {
	Verdict     Verdict          `json:"verdict"`
	Source      string           `json:"source"`
	Keys        []string         `json:"keys"`         // ids of the public keys
	KeysOutside bool             `json:"keys_outside"` // the caller says that they come from outside of the data
	Streams     []StreamReport   `json:"streams"`
	Writers     []WriterReport   `json:"writers"`
	Items       ItemReport       `json:"items"`
	Counts      map[Check]uint64 `json:"counts,omitempty"`   // findings by check
	Findings    []Finding        `json:"findings,omitempty"` // the first 1,000
	Notes       []string         `json:"notes,omitempty"`    // what the reader should know besides

	sabotage Check
}

// Found is the number of all findings.
func (r *Report) Found() uint64 {
	var n uint64
	for _, count := range r.Counts {
		n += count
	}
	return n
}

func (r *Report) add(f Finding) {
	if f.Check == r.sabotage {
		return
	}
	if r.Counts == nil {
		r.Counts = map[Check]uint64{}
	}
	r.Counts[f.Check]++
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// finish sorts and judges.
func (r *Report) finish() {
	slices.SortFunc(r.Streams, func(a, b StreamReport) int { return cmp.Compare(a.Stream, b.Stream) })
	slices.SortFunc(r.Writers, func(a, b WriterReport) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), a.Writer.Compare(b.Writer))
	})
	anchored := len(r.Streams) > 0
	for i := range r.Streams {
		anchored = anchored && r.Streams[i].Anchor != nil
	}
	switch {
	case r.Found() > 0:
		r.Verdict = VerdictFindings
	case anchored && r.KeysOutside:
		r.Verdict = VerdictProven
	default:
		r.Verdict = VerdictConsistent
	}
}
