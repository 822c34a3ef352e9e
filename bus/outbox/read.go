package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

const hintName = "published"

// Read returns events after seq after, in order: at least one, at most maxEntries, about maxBytes of
// sealed bytes and items, and never waits for more than the first. It waits for that until ctx ends.
// After Close it returns what is left, then io.EOF. It never returns what a power loss may still
// take while some Record waits for the disk.
func (o *Outbox) Read(ctx context.Context, after uint64, maxEntries, maxBytes int) ([]schemas.Entry, error) {
	for {
		o.mu.Lock()
		last, done := o.visible, o.done
		var grown <-chan struct{}
		if last <= after && !done {
			grown = waiting(&o.grown)
		}
		o.mu.Unlock()
		if last > after {
			o.reading.Lock()
			defer o.reading.Unlock()
			return o.cursor.read(o.view, after, last, maxEntries, maxBytes)
		}
		if done {
			return nil, io.EOF
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// view returns the segment that holds seq.
func (o *Outbox) view(seq uint64) (segment, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return viewSegment(o.segs, seq)
}

// Published notes that the stream has acknowledged events up to seq. It is a hint for people and
// statistics: nothing is deleted because of it.
func (o *Outbox) Published(seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.published = max(o.published, seq)
}

// Release says that events up to upTo are stored and sealed, and that both are synced. Segments that
// hold nothing else are deleted when they are older than Config.KeepFor, or than half a minute while more than
// half of the bound is used: now, or later by Run; after
// Close by an Adopter.
func (o *Outbox) Release(upTo uint64) error {
	o.mu.Lock()
	o.released = max(o.released, min(upTo, o.seq))
	o.mu.Unlock()
	return o.prune()
}

// keepInNeed replaces a longer Config.KeepFor while more than half of the bound is used. It is longer than a
// bus or a store leaves an acknowledged write unsynced.
const keepInNeed = 30 * time.Second

// prune deletes segments that are released and old enough.
func (o *Outbox) prune() error {
	o.mu.Lock()
	if o.closing { // what is left is an adopter's
		o.mu.Unlock()
		return nil
	}
	keep := uint64(math.MaxUint64)
	for _, pin := range o.pins {
		keep = min(keep, pin)
	}
	due := func(s *segment) bool {
		age := o.cfg.KeepFor
		if o.used > o.cfg.MaxBytes/2 {
			age = min(age, keepInNeed) // what is stored twice must not refuse new exchanges
		}
		return s.last >= s.first && s.last <= o.released && s.last < keep && time.Since(s.since) >= age
	}
	var err error
	if n := len(o.segs); n > 0 && due(&o.segs[n-1]) {
		err = o.rotate() // the last segment can only go when it is not the last
	}
	var gone []segment
	for len(o.segs) > 1 && due(&o.segs[0]) {
		gone = append(gone, o.segs[0])
		o.used -= o.segs[0].size
		o.segs = o.segs[1:]
	}
	if len(gone) > 0 {
		wake(&o.freed)
	}
	o.mu.Unlock()
	errs := []error{err}
	for _, s := range gone {
		if err := os.Remove(s.path); err != nil {
			errs = append(errs, fmt.Errorf("delete released segment: %w", err))
		}
	}
	return errors.Join(errs...)
}

// pin keeps events from the next one on until unpin.
func (o *Outbox) pin(key uuid.UUID) (from uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pins == nil {
		o.pins = make(map[uuid.UUID]uint64)
	}
	if _, ok := o.pins[key]; !ok {
		o.pins[key] = o.seq + 1
	}
	return o.pins[key]
}

func (o *Outbox) unpin(key uuid.UUID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pins, key)
}

// writeHint notes the published position in a file, for whoever adopts this journal.
func (o *Outbox) writeHint() error {
	o.reading.Lock()
	defer o.reading.Unlock()
	o.mu.Lock()
	seq := o.published
	o.mu.Unlock()
	if o.hint == nil {
		return nil
	}
	if _, err := o.hint.WriteAt(fmt.Appendf(nil, "%0*d\n", segmentDigits, seq), 0); err != nil {
		return fmt.Errorf("note published position: %w", err)
	}
	return nil
}

// readHint returns 0 where there is none.
func readHint(path string) uint64 {
	b, err := os.ReadFile(path) //nolint:gosec // a name of ours in a configured folder
	if err != nil {
		return 0
	}
	seq, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
