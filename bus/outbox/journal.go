package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// journal is what is found in a writer's folder, read only.
type journal struct {
	dir    string
	header segmentHeader // of the last segment
	segs   []segment     // the last one ends at its last commit

	last     uint64 // seq of the last event, 0 when there is none
	lastHash seal.Hash
	lastTime schemas.Time
	closed   bool           // the last event is the writer's close
	open     []openExchange // exchanges without an outcome
	damage   error          // bytes after the last commit that no crash leaves behind
}

// openJournal reads a journal's last segment to its end: all that has to be known about a dead
// writer stands there, because every segment begins with the exchanges open at that point.
func openJournal(dir string) (*journal, error) {
	segs, err := listSegments(dir)
	if err != nil {
		return nil, err
	}
	j := &journal{dir: dir}
	for ; len(segs) > 0; segs = segs[:len(segs)-1] {
		j.segs = segs
		err = j.readLast()
		if !errors.Is(err, errTorn) && !errors.Is(err, io.EOF) {
			break
		}
		err = nil // the process died before the first bytes of this segment were there
		j.segs = nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	return j, nil
}

func (j *journal) readLast() error {
	seg := &j.segs[len(j.segs)-1]
	f, err := os.Open(seg.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	fr := newFrameReader(f, 0, seg.size, 0)
	h, carried, err := readSegmentStart(fr)
	if errors.Is(err, errTorn) && hasGroups(f, seg.size) {
		err = fmt.Errorf("%w: segment %s has events but no whole header", ErrCorrupt, seg.path)
	}
	if err != nil {
		return err
	}
	if h.First != seg.first || h.First == 0 {
		return fmt.Errorf("%w: segment %s says that it begins at %d", ErrCorrupt, seg.path, h.First)
	}
	j.header = h
	j.last, j.lastHash, j.lastTime = h.First-1, h.PrevHash, h.PrevTime
	seg.last = j.last
	set := newOpenSet(carried)
	commit := fr.off
	var batch []eventFrame
	for {
		e, _, flags, err := nextGroup(fr)
		if err == nil && e.seq != j.last+uint64(len(batch))+1 {
			err = fmt.Errorf("%w: event %d stands where %d is due", ErrCorrupt, e.seq, j.last+uint64(len(batch))+1)
		}
		if err != nil {
			j.damage = damage(fr, seg, commit, err)
			break
		}
		batch = append(batch, e)
		if flags&flagMore != 0 {
			continue
		}
		for _, e := range batch {
			j.saw(&e, set)
		}
		batch = batch[:0]
		commit = fr.off
	}
	seg.size, seg.last = commit, j.last
	j.open, err = set.list()
	return err
}

func (j *journal) saw(e *eventFrame, set *openSet) {
	j.last, j.lastHash, j.lastTime = e.seq, e.hash, e.time
	j.closed = false
	switch e.kind {
	case schemas.KindRequest:
		set.requests[e.exchange] = e.sealed
	case schemas.KindOutcome:
		delete(set.requests, e.exchange)
		delete(set.carried, e.exchange)
	case schemas.KindWriter:
		var ev schemas.Event
		if jsonx.Unmarshal(e.sealed, &ev) == nil && ev.Life != nil {
			j.closed = ev.Life.State == LifeClose
		}
	default: // says nothing of the end
	}
}

// ownGap returns what a gap event declares of its own writer.
func ownGap(sealed []byte) (schemas.Gap, error) {
	var ev schemas.Event
	if err := jsonx.Unmarshal(sealed, &ev); err != nil {
		return schemas.Gap{}, err
	}
	if ev.Gap == nil || ev.Gap.Reason != GapShed || ev.Life != nil {
		return schemas.Gap{}, nil
	}
	return *ev.Gap, nil
}

// damage tells a torn tail, which a crash leaves behind, from bytes that were changed later: after a
// torn tail comes nothing that was ever whole.
func damage(fr *frameReader, seg *segment, commit int64, cause error) error {
	if errors.Is(cause, io.EOF) || errors.Is(cause, errTorn) && fr.limit-fr.off < frameHeader {
		return nil
	}
	if !errors.Is(cause, errBadFrame) && !errors.Is(cause, errTorn) {
		return fmt.Errorf("segment %s, offset %d: %w", seg.path, commit, cause) // whole frames that do not fit, or no bytes to be had
	}
	if at, ok := findEvent(fr, fr.off+1); ok {
		return fmt.Errorf("segment %s, offset %d: %w; a whole event follows at offset %d", seg.path, commit, wrapCorrupt(cause), at)
	}
	return nil
}

// hasGroups reports whether anything after a segment's beginning looks like the frame of an item or
// event. The beginning is JSON, which cannot hold the magic.
func hasGroups(f *os.File, size int64) bool {
	buf := make([]byte, readerWindow)
	for from := int64(0); from < size; from += int64(len(buf)) - 2 {
		n := min(int64(len(buf)), size-from)
		if _, err := f.ReadAt(buf[:n], from); err != nil {
			return false
		}
		for _, typ := range []byte{frameItem, frameEvent} {
			if bytes.Contains(buf[:n], []byte{magic0, magic1, typ}) {
				return true
			}
		}
	}
	return false
}

func wrapCorrupt(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// findEvent looks for the frame of an event at any offset from on. The writer's nonce keeps
// payloads from being mistaken for one.
func findEvent(fr *frameReader, from int64) (int64, bool) {
	buf := make([]byte, readerWindow)
	for from < fr.limit-frameHeader {
		n := min(int64(len(buf)), fr.limit-from)
		if _, err := fr.r.ReadAt(buf[:n], from); err != nil {
			return 0, false
		}
		for i := range n - 2 {
			if buf[i] != magic0 || buf[i+1] != magic1 || buf[i+2] != frameEvent {
				continue
			}
			probe := newFrameReader(fr.r, from+i, fr.limit, fr.nonce)
			if f, err := probe.next(); err == nil && f.typ == frameEvent {
				return from + i, true
			}
		}
		from += n - 2
	}
	return 0, false
}

// openSet follows the open exchanges of a journal that is read; events are parsed only when they
// are still open at the end.
type openSet struct {
	requests map[uuid.UUID][]byte
	carried  map[uuid.UUID]openExchange
}

func newOpenSet(carried []openExchange) *openSet {
	s := &openSet{requests: map[uuid.UUID][]byte{}, carried: map[uuid.UUID]openExchange{}}
	for _, c := range carried {
		s.carried[c.Correlation.Exchange] = c
	}
	return s
}

func (s *openSet) list() ([]openExchange, error) {
	var x exchanges
	for id, sealed := range s.requests {
		if id == (uuid.UUID{}) {
			continue
		}
		var e schemas.Event
		if err := jsonx.Unmarshal(sealed, &e); err != nil {
			return nil, fmt.Errorf("%w: request of exchange %s: %w", ErrCorrupt, id, err)
		}
		if e.Correlation != nil {
			x.add(&e)
		}
	}
	for id, c := range s.carried {
		if _, ok := x.open[id]; !ok {
			if x.open == nil {
				x.open = map[uuid.UUID]*openExchange{}
			}
			x.open[id] = &c
		}
	}
	return x.list(), nil
}

// view returns the segment that holds seq.
func (j *journal) view(seq uint64) (segment, error) { return viewSegment(j.segs, seq) }

func viewSegment(segs []segment, seq uint64) (segment, error) {
	for _, s := range slices.Backward(segs) {
		if s.first <= seq {
			return s, nil
		}
	}
	return segment{}, fmt.Errorf("event %d: %w", seq, ErrReleased)
}

// Scan reads the journal in dir from its first event that is still there, read only, whether its
// writer lives or not. Each entry's seq, hash and place in the chain are checked; the first error
// ends the sequence. A torn tail is no error; see [ErrCorrupt] for what is.
func Scan(dir string) iter.Seq2[schemas.Entry, error] { return scanFrom(dir, 0) }

// scanFrom is Scan from the segment that holds seq on.
func scanFrom(dir string, seq uint64) iter.Seq2[schemas.Entry, error] {
	return func(yield func(schemas.Entry, error) bool) {
		j, err := openJournal(dir)
		if err != nil {
			yield(schemas.Entry{}, err)
			return
		}
		c := newCursor(j.header.Writer, j.header.Tenant)
		c.strict = true
		defer c.close()
		for _, seg := range j.segs {
			if seg.last < seq {
				continue
			}
			for e, err := range c.segment(seg) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
		if j.damage != nil {
			yield(schemas.Entry{}, j.damage)
		}
	}
}

// Journals returns the folders of the journals in dir, by age of their writers.
func Journals(dir string) ([]string, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var out []string
	for _, n := range names {
		if _, err := writerOf(n.Name()); err == nil && n.IsDir() {
			out = append(out, filepath.Join(dir, n.Name()))
		}
	}
	return out, nil
}

// writerOf parses the name of a journal's folder; only the canonical form is one.
func writerOf(name string) (uuid.UUID, error) {
	id, err := uuid.Parse(name)
	if err == nil && id.String() != name {
		err = fmt.Errorf("%q is not the name of a journal", name)
	}
	return id, err
}
