package verify

import (
	"fmt"
	"slices"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// numbered names an event by its writer.
type numbered struct {
	writer uuid.UUID
	seq    uint64
}

// told is what one event says of another.
type told struct {
	hash seal.Hash
	as   string // "predecessor", or the state in which a writer was declared
	by   Finding
	seen bool
}

// writer is the chain of one writer as far as it was seen.
type writer struct {
	report WriterReport
	hash   seal.Hash // of its last event
	holes  []hole
	end    uint64 // number with which it was closed or declared dead; 0: not
}

// hole is a stretch of numbers that were not seen.
type hole struct {
	first, last uint64
	before      seal.Hash // hash of first-1
	after       seal.Hash // what last+1 says of last
	known       bool      // after is known
	position    uint64    // of the event behind the hole
	stream      string
}

// link puts an event into the chain of its writer. event is nil where it cannot be read: the columns must do then.
func (c *Checker) link(row *EventRow, event *schemas.Event, hash seal.Hash) {
	id, seq := row.Writer, row.Seq
	var prev seal.Hash
	if event != nil {
		id, seq, prev = event.Writer, event.Seq, event.PrevHash
	}
	c.compareTold(row, numbered{id, seq}, hash)
	w := c.writers[id]
	if w == nil {
		w = &writer{report: WriterReport{Writer: id, State: WriterOpen, Tenant: row.Tenant, Began: row.Time}}
		c.writers[id] = w
	}
	switch {
	case seq == w.report.Seq+1:
		c.follows(row, event, prev, w.hash)
	case seq > w.report.Seq:
		w.holes = append(w.holes, hole{w.report.Seq + 1, seq - 1, w.hash, prev, event != nil, row.Position, row.Stream})
	default:
		c.fill(row, event, w, seq, prev, hash)
		return
	}
	w.report.Seq, w.hash = seq, hash
	if event != nil {
		c.life(row, event, w)
	}
}

// follows compares what an event says of the one before with what that one is.
func (c *Checker) follows(row *EventRow, event *schemas.Event, prev, before seal.Hash) {
	if event == nil || prev == before {
		return
	}
	if row.Seq == 1 {
		c.find(row, CheckLink, "raw", "the first event of a writer names one before it")
		return
	}
	c.find(row, CheckLink, "raw", fmt.Sprintf("names %v as the event before, which is %v", prev, before))
}

// fill takes an event that comes late, into the hole that it left.
func (c *Checker) fill(row *EventRow, event *schemas.Event, w *writer, seq uint64, prev, hash seal.Hash) {
	i := slices.IndexFunc(w.holes, func(h hole) bool { return h.first <= seq && seq <= h.last })
	if i < 0 {
		text := fmt.Sprintf("there is another event with number %d of this writer, or this one again", seq)
		c.find(row, CheckFork, "seq", text)
		return
	}
	h := w.holes[i]
	var rest []hole
	if seq == h.first {
		c.follows(row, event, prev, h.before)
	} else {
		rest = append(rest, hole{h.first, seq - 1, h.before, prev, event != nil, row.Position, row.Stream})
	}
	if seq == h.last {
		if h.known && h.after != hash {
			c.find(row, CheckLink, "raw", fmt.Sprintf("the event after it names %v, not %v", h.after, hash))
		}
	} else {
		rest = append(rest, hole{seq + 1, h.last, hash, h.after, h.known, h.position, h.stream})
	}
	w.holes = slices.Replace(w.holes, i, i+1, rest...)
}

// life follows the beginning and the end of a writer, as it tells them itself.
func (c *Checker) life(row *EventRow, event *schemas.Event, w *writer) {
	life := event.Life
	if event.Kind != schemas.KindWriter {
		life = nil
	}
	own := life != nil && life.Subject == nil
	switch {
	case event.Seq == 1 && (!own || life.State != "open"):
		c.find(row, CheckWriter, "raw", "the first event of a writer does not open it")
	case event.Seq != 1 && own && life.State == "open":
		c.find(row, CheckWriter, "raw", "a writer is opened a second time")
	case w.end != 0:
		c.find(row, CheckWriter, "raw", fmt.Sprintf("the writer was closed with number %d", w.end))
	}
	if own && life.State == "close" {
		w.report.State, w.end = WriterClosed, event.Seq
	}
}

// tell notes what an event says of the last event of another writer.
func (c *Checker) tell(row *EventRow, event *schemas.Event, of *schemas.WriterRef, as string) {
	if of == nil {
		return
	}
	at := numbered{of.Writer, of.Seq}
	c.told[at] = append(c.told[at], told{hash: of.Hash, as: as, by: Finding{
		Check: CheckWriter, Table: "events", Stream: row.Stream, Position: row.Position, Writer: event.Writer, Seq: event.Seq,
	}})
}

func (c *Checker) compareTold(row *EventRow, at numbered, hash seal.Hash) {
	list := c.told[at]
	for i := range list {
		t := &list[i]
		t.seen = true
		if t.hash != hash {
			c.find(row, CheckWriter, "raw", fmt.Sprintf("writer %s seq %d says that the hash of this event is %v", t.by.Writer, t.by.Seq, t.hash))
		}
	}
}

// endWriters judges the ends of chains.
func (c *Checker) endWriters() {
	for at, list := range c.told {
		w := c.writers[at.writer]
		for i := range list {
			t := &list[i]
			if !t.seen && c.config.Partial {
				continue
			}
			if !t.seen {
				t.by.Text = fmt.Sprintf("%s: it tells of writer %s with last number %d, which is not here", t.as, at.writer, at.seq)
				c.report.add(t.by)
				continue
			}
			if t.as != string(WriterAdopted) {
				continue
			}
			if w.report.State == WriterOpen {
				w.report.State, w.end = WriterAdopted, at.seq
			}
			if w.report.Seq > at.seq {
				t.by.Text = fmt.Sprintf("it declares writer %s dead after number %d; there are events up to %d", at.writer, at.seq, w.report.Seq)
				c.report.add(t.by)
			}
		}
	}
	for id, w := range c.writers {
		for _, h := range w.holes {
			c.report.add(Finding{
				Check: CheckNumbering, Table: "events", Stream: h.stream, Position: h.position, Writer: id, Seq: h.first,
				Text: fmt.Sprintf("numbers %d to %d of this writer are missing before this position", h.first, h.last),
			})
		}
		c.report.Writers = append(c.report.Writers, w.report)
	}
}
