package verify

import (
	"fmt"
	"uuid"

	"golang.org/x/mod/sumdb/note"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Tiles are the hashes that a ledger keeps, checked against a signed head; an audit/ledger.Reader is one.
type Tiles interface {
	// Leaves returns up to n leaves from one on.
	Leaves(from uint64, n int) ([]seal.Hash, error)
}

// Ledger is what lies beside the tree's head on disk. Without one the tree is made from the events alone, and a wrong one
// cannot be told to the event.
type Ledger struct {
	Size  uint64
	Tiles Tiles
}

// Config of a [Checker].
type Config struct {
	Source      string // what is verified, for the report
	Keys        []note.Verifier
	KeysOutside bool              // the keys come from outside of the data
	Ledgers     map[string]Ledger // by stream; optional
	Partial     bool              // journals: there is no tree, and what an event tells of may have been freed
	Sabotage    Check             // leaves one check out, to show that it is needed. For tests only.
}

// Checker judges events that it is shown in the order of their stream. Not for concurrent use.
type Checker struct {
	config  Config
	report  *Report
	streams map[string]*stream
	writers map[uuid.UUID]*writer
	told    map[numbered][]told // what events say about others
	others  uint64              // heads of other ledgers
}

// stream is the state of one stream.
type stream struct {
	report StreamReport
	last   uint64 // position
	tree   frontier
	heads  []head // known, by size
	next   int    // the first of them that the tree has not come to
	ledger Ledger
	window []seal.Hash // leaves of the ledger
	from   uint64      // the first of them
}

// New returns a checker that has seen nothing.
func New(config Config) *Checker {
	c := &Checker{
		config: config, report: &Report{Source: config.Source, KeysOutside: config.KeysOutside, sabotage: config.Sabotage},
		streams: map[string]*stream{}, writers: map[uuid.UUID]*writer{}, told: map[numbered][]told{},
	}
	for _, key := range config.Keys {
		c.report.Keys = append(c.report.Keys, fmt.Sprintf("%s+%08x", key.Name(), key.KeyHash()))
	}
	return c
}

func (c *Checker) stream(name string) *stream {
	s := c.streams[name]
	if s == nil {
		s = &stream{report: StreamReport{Stream: name}, ledger: c.config.Ledgers[name]}
		c.streams[name] = s
	}
	return s
}

// Event judges the next event of its stream, and returns what it says; nil if it says nothing. The result shares no memory
// with the row.
func (c *Checker) Event(row *EventRow) *schemas.Event {
	s := c.stream(row.Stream)
	if s.report.Events > 0 && row.Position <= s.last {
		c.find(row, CheckRowDouble, "", "there is another row at this position")
		return nil
	}
	s.last = row.Position
	s.report.Events++
	hash := c.hash(s, row)
	event, err := schemas.DecodeEvent(row.Raw)
	if err != nil {
		c.find(row, CheckDecode, "raw", fmt.Sprintf("the sealed bytes are no event: %v", err))
		c.link(row, nil, hash)
		if !c.config.Partial {
			c.leaf(s, row, hash)
		}
		return nil
	}
	want := eventColumns(row, event)
	differ(c, at("events", row), &want, &row.EventColumns)
	c.link(row, event, hash)
	switch {
	case c.config.Partial:
	case event.Kind == schemas.KindCheckpoint:
		c.checkpoint(s, row, event)
	default:
		c.leaf(s, row, hash)
	}
	return event
}

// hash compares the sealed bytes with their hash, and returns the one that counts from here on: a changed one must not make
// what follows look changed too.
func (c *Checker) hash(s *stream, row *EventRow) seal.Hash {
	got := seal.Event(row.Raw)
	if got == row.Hash {
		return got
	}
	text, counts := "the sealed bytes do not have this hash", row.Hash
	if sealed, ok := c.sealed(s, s.tree.size); ok {
		switch sealed {
		case got:
			text, counts = "the column was changed: the ledger has the hash of the sealed bytes", got
		case row.Hash:
			text = "the sealed bytes were changed: the ledger has the hash of the column"
		}
	}
	c.find(row, CheckHash, "hash", text)
	return counts
}

// sealed is the hash of a leaf under the ledger's head, if there is a ledger that says it.
func (c *Checker) sealed(s *stream, leaf uint64) (seal.Hash, bool) {
	const width = 256
	if leaf >= s.ledger.Size {
		return seal.Hash{}, false
	}
	if leaf < s.from || leaf-s.from >= uint64(len(s.window)) {
		from := leaf - leaf%width
		if s.window != nil && s.from == from && len(s.window) == 0 {
			return seal.Hash{}, false // cannot be read, as was said
		}
		leaves, err := s.ledger.Tiles.Leaves(from, int(min(width, s.ledger.Size-from)))
		s.window, s.from = leaves, from
		if err != nil {
			s.window = []seal.Hash{}
			c.report.add(Finding{Check: CheckTiles, Stream: s.report.Stream, Text: fmt.Sprintf("leaves from %d on: %v", from, err)})
			return seal.Hash{}, false
		}
	}
	return s.window[leaf-s.from], true
}

// leaf puts an event into the tree.
func (c *Checker) leaf(s *stream, row *EventRow, hash seal.Hash) {
	next := s.tree.size
	sealed, known := c.sealed(s, next)
	switch {
	case known && sealed == hash:
		if row.Leaf != next {
			c.find(row, CheckColumn, "leaf", fmt.Sprintf("is %d, the ledger has this event as leaf %d", row.Leaf, next))
		}
	case row.Leaf > next && row.Leaf != noLeaf && c.skips(s, row, hash): // what is missing was said
	case row.Leaf < next || row.Leaf == noLeaf:
		c.find(row, CheckRowForeign, "leaf", fmt.Sprintf("is %d, and it is not the event of leaf %d: nobody sealed it there", row.Leaf, next))
		return
	case known:
		c.find(row, CheckLeaf, "leaf", fmt.Sprintf("another event was sealed as leaf %d", next))
		hash = sealed
	case row.Leaf != next:
		c.find(row, CheckLeaf, "leaf", fmt.Sprintf("is %d, expected was %d", row.Leaf, next))
	}
	c.grow(s, hash)
}

// skips reports whether rows before this one are missing, and puts what the ledger has of them into the tree.
func (c *Checker) skips(s *stream, row *EventRow, hash seal.Hash) bool {
	from := s.tree.size
	if row.Leaf < s.ledger.Size {
		if sealed, ok := c.sealed(s, row.Leaf); !ok || sealed != hash {
			return false
		}
	} else if row.Leaf-from > row.Position {
		return false // there cannot be so many
	}
	c.find(row, CheckRowMissing, "", fmt.Sprintf("%d events before this one are missing, leaves %d to %d", row.Leaf-from, from, row.Leaf-1))
	for s.tree.size < row.Leaf {
		sealed, ok := c.sealed(s, s.tree.size)
		if !ok {
			s.tree.broke = true
			s.tree.size = row.Leaf
			break
		}
		c.grow(s, sealed)
	}
	return true
}

// grow adds a leaf and compares the root with every head of this size.
func (c *Checker) grow(s *stream, hash seal.Hash) {
	if s.tree.broke {
		s.tree.size++
		s.pass()
		return
	}
	s.tree.add(hash)
	if s.next == len(s.heads) || s.heads[s.next].Size > s.tree.size {
		return
	}
	root := s.tree.root()
	for ; s.next < len(s.heads) && s.heads[s.next].Size <= s.tree.size; s.next++ {
		h := &s.heads[s.next]
		if h.Size == s.tree.size && h.Root == root {
			s.fits(h)
			continue
		}
		if h.Size == s.tree.size && !s.contradicted(s.next) {
			c.report.add(Finding{
				Check: CheckTree, Stream: s.report.Stream, Position: s.last,
				Text: fmt.Sprintf("the first %d events have root %v, signed was %v (%s)", h.Size, root, h.Root, h.source),
			})
			s.tree.broke = true // every later head would say the same
		}
	}
}

func (s *stream) fits(h *head) {
	s.report.Heads++
	if s.report.Newest == nil || h.Size >= s.report.Newest.Size {
		s.report.Newest = h.report()
	}
	if h.outside {
		s.report.Anchor = h.report()
	}
}

// pass leaves heads behind that cannot be compared any more.
func (s *stream) pass() {
	for s.next < len(s.heads) && s.heads[s.next].Size <= s.tree.size {
		s.next++
	}
}

func (c *Checker) find(row *EventRow, check Check, column, text string) {
	f := at("events", row)
	f.Check, f.Column, f.Text = check, column, text
	c.report.add(f)
}

// at is the place of an event in a table.
func at(table string, row *EventRow) Finding {
	return Finding{Table: table, Stream: row.Stream, Position: row.Position, Writer: row.Writer, Seq: row.Seq}
}

// End judges what only the end can show, and returns the report. Nothing may be shown afterwards.
func (c *Checker) End() *Report {
	for _, s := range c.streams {
		s.report.Leaves = s.tree.size
		signed := uint64(0)
		if n := len(s.heads); n > 0 {
			signed = s.heads[n-1].Size
		}
		if signed > s.tree.size {
			h := &s.heads[len(s.heads)-1]
			c.report.add(Finding{
				Check: CheckCutTail, Table: "events", Stream: s.report.Stream, Position: s.last,
				Text: fmt.Sprintf("the head of %s (%s) has %d events, here are %d", h.Time.Format("2006-01-02 15:04:05Z"), h.source, h.Size, s.tree.size),
			})
		}
		s.report.Unsealed = s.tree.size - min(s.tree.size, signed)
		c.report.Streams = append(c.report.Streams, s.report)
	}
	c.endWriters()
	if c.others > 0 {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf("%d heads of other ledgers were passed over", c.others))
	}
	c.report.finish()
	return c.report
}
