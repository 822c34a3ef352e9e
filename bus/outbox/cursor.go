package outbox

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// cursor reads a journal's events in order and checks hash and chain. Not for concurrent use.
type cursor struct {
	writer uuid.UUID
	tenant string
	strict bool // also compare what the sealed bytes say of their place

	file  *os.File
	path  string
	start int64
	fr    *frameReader
	next  uint64 // seq of the event that fr stands at
	prev  seal.Hash
}

func newCursor(writer uuid.UUID, tenant string) *cursor {
	return &cursor{writer: writer, tenant: tenant}
}

func (c *cursor) close() {
	if c.file != nil {
		_ = c.file.Close() // read only
		c.file, c.path = nil, ""
	}
}

// open stands at the first event of a segment.
func (c *cursor) open(seg segment) error {
	c.close()
	f, err := os.Open(seg.path)
	if errors.Is(err, os.ErrNotExist) {
		err = errors.Join(ErrReleased, err)
	}
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	c.file, c.path, c.start = f, seg.path, seg.start
	if c.fr == nil {
		c.fr = newFrameReader(f, 0, seg.size, 0)
	} else {
		c.fr.reset(f, 0, seg.size, 0)
	}
	h, _, err := readSegmentStart(c.fr)
	if err == nil && (h.First != seg.first || h.Writer != c.writer) {
		err = fmt.Errorf("%w: header is that of writer %s, event %d", ErrCorrupt, h.Writer, h.First)
	}
	if err != nil {
		c.close()
		return fmt.Errorf("segment %s: %w", seg.path, err)
	}
	c.next, c.prev = h.First, h.PrevHash
	return nil
}

// seek stands at event seq, which seg holds.
func (c *cursor) seek(seg segment, seq uint64) error {
	if c.path != seg.path || c.start != seg.start || c.next > seq {
		if err := c.open(seg); err != nil {
			return err
		}
	}
	c.fr.limit = seg.size
	for c.next < seq {
		if _, err := c.entry(); err != nil {
			return err
		}
	}
	return nil
}

// entry reads the event that the cursor stands at.
func (c *cursor) entry() (schemas.Entry, error) {
	at := c.fr.off
	e, items, _, err := nextGroup(c.fr)
	switch {
	case err != nil:
		err = wrapCorrupt(err)
	case e.seq != c.next:
		err = fmt.Errorf("%w: event %d stands where %d is due", ErrCorrupt, e.seq, c.next)
	case e.hash != seal.Event(e.sealed):
		err = fmt.Errorf("%w: hash of event %d differs", ErrCorrupt, e.seq)
	case c.strict:
		err = c.checkLink(&e)
	}
	if err != nil {
		path := c.path
		c.close() // the next read begins anew: off may stand in the middle of a group
		return schemas.Entry{}, fmt.Errorf("segment %s, offset %d: %w", path, at, err)
	}
	c.next++
	c.prev = e.hash
	return e.entry(c.writer, c.tenant, items), nil
}

// checkLink compares what the sealed bytes say of their place with where they stand.
func (c *cursor) checkLink(e *eventFrame) error {
	var link struct {
		Writer   uuid.UUID `json:"writer"`
		Seq      uint64    `json:"seq"`
		PrevHash seal.Hash `json:"prev_hash"`
	}
	if err := jsonx.Unmarshal(e.sealed, &link); err != nil {
		return fmt.Errorf("%w: event %d: %w", ErrCorrupt, e.seq, err)
	}
	if link.Writer != c.writer || link.Seq != e.seq || link.PrevHash != c.prev {
		return fmt.Errorf("%w: event %d does not follow the one before it", ErrCorrupt, e.seq)
	}
	return nil
}

// segment yields all entries of a segment. It checks that the segment goes on where the one before
// ended.
func (c *cursor) segment(seg segment) iter.Seq2[schemas.Entry, error] {
	return func(yield func(schemas.Entry, error) bool) {
		first, prev, next := c.path == "", c.prev, c.next
		if err := c.open(seg); err != nil {
			yield(schemas.Entry{}, err)
			return
		}
		if !first && (c.prev != prev || c.next != next) {
			yield(schemas.Entry{}, fmt.Errorf("segment %s: %w: it does not go on where the one before ends", seg.path, ErrCorrupt))
			return
		}
		for c.next <= seg.last {
			e, err := c.entry()
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// read returns events from after+1 to last.
func (c *cursor) read(view func(uint64) (segment, error), after, last uint64, maxEntries, maxBytes int) ([]schemas.Entry, error) {
	var out []schemas.Entry
	var seg segment
	bytes := 0
	for seq := after + 1; seq <= last && len(out) < max(1, maxEntries) && (bytes < maxBytes || len(out) == 0); seq++ {
		if len(out) == 0 || seq > seg.last {
			var err error
			if seg, err = view(seq); err != nil {
				return out, err
			}
			if err := c.seek(seg, seq); err != nil {
				return nil, err
			}
		}
		e, err := c.entry()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		bytes += size(&e)
	}
	return out, nil
}

func size(e *schemas.Entry) int {
	n := len(e.Sealed)
	for i := range e.Items {
		n += len(e.Items[i].Data)
	}
	return n
}
