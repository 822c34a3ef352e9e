package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const (
	segmentFormat = 1
	segmentDigits = 20 // of the name: enough for every uint64
)

// segmentHeader is the first frame of a segment.
type segmentHeader struct {
	Format   int          `json:"format"`
	Writer   uuid.UUID    `json:"writer"`
	Tenant   string       `json:"tenant"`
	Nonce    uint32       `json:"nonce"` // keys the checksums of the other frames
	First    uint64       `json:"first"` // seq of the first event, whether it is there yet or not
	PrevHash seal.Hash    `json:"prev_hash"`
	PrevTime schemas.Time `json:"prev_time,omitzero"`
}

// segment is one file of a journal.
type segment struct {
	path  string
	first uint64    // seq of the first event
	last  uint64    // seq of the last event; first-1 when there is none
	size  int64     // bytes that are committed
	start int64     // bytes of the header; tells a segment that was begun anew from the one before
	since time.Time // of the last append
}

func segmentName(first uint64) string { return fmt.Sprintf("%0*d", segmentDigits, first) }

// encodeSegmentStart returns the first bytes of a segment: its header and the exchanges open there.
func encodeSegmentStart(h segmentHeader, open []openExchange) ([]byte, error) {
	var b []byte
	for _, part := range []struct {
		typ   byte
		nonce uint32
		v     any
	}{{frameSegment, 0, h}, {frameCarried, h.Nonce, open}} {
		j, err := jsonx.Marshal(part.v)
		if err != nil {
			return nil, fmt.Errorf("encode segment header: %w", err)
		}
		var at int
		b, at = beginFrame(b)
		b = append(b, j...)
		if err := endFrame(b, at, part.typ, 0, part.nonce, nil); err != nil {
			return nil, fmt.Errorf("encode segment header: %w", err)
		}
	}
	return b, nil
}

// readSegmentStart is the inverse of encodeSegmentStart; fr then stands at the first group.
func readSegmentStart(fr *frameReader) (segmentHeader, []openExchange, error) {
	var h segmentHeader
	var open []openExchange
	fr.nonce = 0
	f, err := fr.next()
	if err != nil {
		return h, nil, err
	}
	if f.typ != frameSegment {
		return h, nil, fmt.Errorf("%w: no segment header", ErrCorrupt)
	}
	if err := jsonx.UnmarshalStrict(f.payload, &h); err != nil {
		return h, nil, fmt.Errorf("%w: segment header: %w", ErrCorrupt, err)
	}
	if h.Format != segmentFormat {
		return h, nil, fmt.Errorf("segment has format %d, this version reads %d: use the version that wrote it", h.Format, segmentFormat)
	}
	fr.nonce = h.Nonce
	f, err = fr.next()
	if err != nil {
		return h, nil, err
	}
	if f.typ != frameCarried {
		return h, nil, fmt.Errorf("%w: no open exchanges after the segment header", ErrCorrupt)
	}
	if err := jsonx.UnmarshalStrict(f.payload, &open); err != nil {
		return h, nil, fmt.Errorf("%w: open exchanges: %w", ErrCorrupt, err)
	}
	return h, open, nil
}

// nextGroup reads up to and including the next event's frame. Nothing of it may be used when
// err != nil; errors are those of frameReader.next, with errTorn for a group that lacks its event.
func nextGroup(fr *frameReader) (e eventFrame, items []schemas.EntryItem, flags byte, err error) {
	start := fr.off
	for {
		f, err := fr.next()
		if errors.Is(err, io.EOF) && fr.off > start {
			err = errTorn
		}
		if err != nil {
			return e, nil, 0, err
		}
		switch f.typ {
		case frameItem:
			it, err := decodeItem(f.payload)
			if err != nil {
				return e, nil, 0, err
			}
			items = append(items, it)
		case frameEvent:
			e, err = decodeEvent(f.payload)
			if err == nil && e.items != len(items) {
				err = fmt.Errorf("%w: event %d has %d items, its group %d", ErrCorrupt, e.seq, e.items, len(items))
			}
			return e, items, f.flags, err
		default:
			return e, nil, 0, fmt.Errorf("%w: frame type %q in a group", ErrCorrupt, f.typ)
		}
	}
}

// listSegments returns the segments of a journal by their names, without opening them.
func listSegments(dir string) ([]segment, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list journal: %w", err)
	}
	var segs []segment
	for _, n := range names {
		first, err := strconv.ParseUint(n.Name(), 10, 64)
		if err != nil || len(n.Name()) != segmentDigits || first == 0 {
			continue
		}
		info, err := n.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // released meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list journal: %w", err)
		}
		segs = append(segs, segment{path: filepath.Join(dir, n.Name()), first: first, size: info.Size(), since: info.ModTime()})
	}
	slices.SortFunc(segs, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	for i := range len(segs) - 1 {
		segs[i].last = segs[i+1].first - 1
	}
	return segs, nil
}

func sortedExchanges(open map[uuid.UUID]*openExchange) []openExchange {
	out := make([]openExchange, 0, len(open))
	for _, id := range slices.SortedFunc(maps.Keys(open), uuid.UUID.Compare) {
		out = append(out, *open[id])
	}
	return out
}
