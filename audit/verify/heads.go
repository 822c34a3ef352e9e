package verify

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// head is a signed head of a ledger.
type head struct {
	ledger.Checkpoint
	source  string
	outside bool
}

func (h *head) report() *HeadReport {
	return &HeadReport{Origin: h.Origin, Size: h.Size, Time: h.Time, Clock: h.Clock, Source: h.source}
}

// Head takes a signed head that the events must have come by; outside says that it was kept outside of the data. All heads
// come before the first event. A head that no key has signed is a finding.
func (c *Checker) Head(text []byte, source string, outside bool) {
	h, _, err := ledger.ReadCheckpoint(text, "", c.config.Keys...)
	if err != nil {
		c.report.add(Finding{Check: CheckSignature, Text: fmt.Sprintf("%s: %v", source, err)})
		return
	}
	c.head(head{h, source, outside})
}

func (c *Checker) head(h head) {
	s := c.stream(h.Stream)
	if h.Size == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(s.heads, h, func(a, b head) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), bytes.Compare(a.Root[:], b.Root[:]))
	})
	for _, near := range s.heads[at:min(at+1, len(s.heads))] {
		if near.Size == h.Size && near.Root == h.Root {
			if h.outside && !near.outside {
				s.heads[at] = h
			}
			return
		}
	}
	for i := max(at-1, 0); i <= at && i < len(s.heads); i++ {
		if near := &s.heads[i]; near.Size == h.Size {
			c.report.add(Finding{
				Check: CheckConsistency, Stream: h.Stream,
				Text: fmt.Sprintf("two heads of %d events have different roots: %v (%s) and %v (%s)", h.Size, near.Root, near.source, h.Root, h.source),
			})
		}
	}
	s.heads = slices.Insert(s.heads, at, h)
}

// contradicted reports whether there is another head of the same size: that was said already.
func (s *stream) contradicted(i int) bool {
	return i > 0 && s.heads[i-1].Size == s.heads[i].Size || i+1 < len(s.heads) && s.heads[i+1].Size == s.heads[i].Size
}

// Anchor takes the text of a place outside: a signed head, or lines of JSON in the form of ledger.Anchored. Heads of other
// ledgers may be among them: a line is theirs when no key has signed it and its origin is not known.
func (c *Checker) Anchor(text []byte, source string) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] != '{' {
		c.Head(text, source, true)
		return
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		var x ledger.Anchored
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		at := fmt.Sprintf("%s line %d", source, number)
		if err := jsonx.Unmarshal(line, &x); err != nil {
			c.report.Notes = append(c.report.Notes, at+" is not a head: cut by the end of a process, or foreign")
			continue
		}
		if _, _, err := ledger.ReadCheckpoint([]byte(x.Note), "", c.config.Keys...); err != nil && !c.ours(x.Origin) {
			c.others++
			continue
		}
		c.Head([]byte(x.Note), at, true)
	}
}

// ours reports whether a ledger of this origin is signed with a name that one of the keys has.
func (c *Checker) ours(origin string) bool {
	return slices.ContainsFunc(c.config.Keys, func(k note.Verifier) bool { return strings.HasPrefix(origin, k.Name()+"/") })
}

// Announce takes events that speak about others, of kind writer and checkpoint, before the first event. They are judged when
// they come in their stream.
func (c *Checker) Announce(row *EventRow) {
	event, err := schemas.DecodeEvent(row.Raw)
	if err != nil {
		return
	}
	if life := event.Life; event.Kind == schemas.KindWriter && life != nil {
		c.tell(row, event, life.Subject, life.State)
		c.tell(row, event, life.Predecessor, "predecessor")
	}
	if event.Kind != schemas.KindCheckpoint || event.Checkpoint == nil || c.config.Partial {
		return
	}
	c.Head([]byte(event.Checkpoint.Note), fmt.Sprintf("checkpoint event at %s %d", row.Stream, row.Position), false)
}

// checkpoint judges a `checkpoint` event in its place.
func (c *Checker) checkpoint(s *stream, row *EventRow, event *schemas.Event) {
	if row.Leaf != noLeaf {
		c.find(row, CheckColumn, "leaf", fmt.Sprintf("is %d, but a checkpoint is no leaf", row.Leaf))
	}
	if event.Checkpoint == nil {
		c.find(row, CheckDecode, "raw", "a checkpoint event without its head")
		return
	}
	told := event.Checkpoint
	h, _, err := ledger.ReadCheckpoint([]byte(told.Note), "", c.config.Keys...)
	if err != nil {
		return // was said when it was announced
	}
	if h.Size != told.Size || h.Root != told.Root || h.Origin != told.Origin || h.Position != told.Position {
		c.find(row, CheckSignature, "raw", "the event tells of another head than the one that was signed")
	}
	if !s.has(h.Size, h.Root) {
		c.find(row, CheckConsistency, "", "this head was not there when the events that speak about others were read")
	}
}

func (s *stream) has(size uint64, root seal.Hash) bool {
	at, _ := slices.BinarySearchFunc(s.heads, size, func(h head, size uint64) int { return cmp.Compare(h.Size, size) })
	for ; at < len(s.heads) && s.heads[at].Size == size; at++ {
		if s.heads[at].Root == root {
			return true
		}
	}
	return false
}
