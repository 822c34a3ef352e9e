package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// write appends the scratch to the last segment. What could not be written whole is cut off again.
func (o *Outbox) write(s *scratch) error {
	seg := &o.segs[len(o.segs)-1]
	at := seg.size
	from := 0
	var err error
	put := func(b []byte) {
		if err == nil && len(b) > 0 {
			_, err = o.file.WriteAt(b, at)
			at += int64(len(b))
		}
	}
	for _, x := range s.external {
		put(s.buf[from:x.at])
		put(x.data)
		from = x.at
	}
	put(s.buf[from:])
	if err != nil {
		if cut := o.file.Truncate(seg.size); cut != nil {
			o.spoilt = true // goes on in a new segment, where this one's events end
			o.log.Warn("journal segment is given up after a failed write", slog.Any("writer", o.id), slog.Any("error", cut))
		}
		return fmt.Errorf("append to journal: %w", err)
	}
	o.used += at - seg.size
	o.count.bytes += uint64(at - seg.size) //nolint:gosec // positive
	seg.size = at
	return nil
}

// exchangeBytes is about what an open exchange takes at the beginning of a segment.
const exchangeBytes = 640

// startBytes is about what the beginning of a segment would take now.
func (o *Outbox) startBytes() int64 { return 512 + exchangeBytes*int64(len(o.exchanges.open)) }

// rotationDue reports whether the next record goes into a new segment. What a segment begins with is
// never more than half of it, however many exchanges are open. The caller holds mu.
func (o *Outbox) rotationDue() bool {
	seg := &o.segs[len(o.segs)-1]
	return o.spoilt || seg.size-seg.start >= max(o.cfg.SegmentBytes, o.startBytes())
}

// rotate goes on in a new segment. The caller holds mu.
func (o *Outbox) rotate() error {
	h := segmentHeader{
		Format: segmentFormat, Writer: o.id, Tenant: o.cfg.Tenant, Nonce: o.nonce,
		First: o.seq + 1, PrevHash: o.prev, PrevTime: o.prevTime,
	}
	b, err := encodeSegmentStart(h, o.exchanges.list())
	if err != nil {
		return err
	}
	f, err := createSegment(o.dir, h.First, b, o.cfg.Durability.anyDisk())
	if err != nil {
		o.count.writeErrors++
		return fmt.Errorf("begin journal segment: %w", err)
	}
	if o.file != nil {
		o.unsynced = append(o.unsynced, o.file)
		if !o.cfg.Durability.anyDisk() {
			o.closeUnsynced()
		}
	}
	o.file, o.spoilt = f, false
	if n := len(o.segs); n > 0 && o.segs[n-1].first == h.First {
		o.used -= o.segs[n-1].size // it held no event and was begun anew under the same name
		o.segs = o.segs[:n-1]
	}
	o.segs = append(o.segs, segment{
		path: f.Name(), first: h.First, last: o.seq, size: int64(len(b)), start: int64(len(b)), since: time.Now(),
	})
	o.used += int64(len(b))
	return nil
}

// closeUnsynced closes earlier segments that nobody wants on the disk now.
func (o *Outbox) closeUnsynced() {
	for _, f := range o.unsynced {
		if err := f.Close(); err != nil {
			o.log.Warn("close of journal segment failed", slog.Any("writer", o.id), slog.Any("error", err))
		}
	}
	o.unsynced = o.unsynced[:0]
}

// createSegment makes a segment with its first bytes; nothing is left when it fails.
func createSegment(dir string, first uint64, b []byte, durable bool) (*os.File, error) {
	path := filepath.Join(dir, segmentName(first))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode) //nolint:gosec // a name of ours in a configured folder
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil && durable {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

// syncTo returns when event seq is on the disk. Whoever comes while another syncs is served by the
// next sync together with all that came meanwhile.
func (o *Outbox) syncTo(seq uint64) error {
	o.syncing.Lock()
	defer o.syncing.Unlock()
	o.mu.Lock()
	if o.synced >= seq || o.broken != nil || o.file == nil {
		defer o.mu.Unlock()
		if o.synced >= seq {
			return nil
		}
		return errors.Join(ErrBroken, o.broken)
	}
	earlier, target := o.unsynced, o.seq
	files := append(slices.Clone(earlier), o.file)
	o.unsynced = nil
	o.mu.Unlock()

	var err error
	for _, f := range files {
		err = errors.Join(err, datasync(f))
	}
	for _, f := range earlier {
		err = errors.Join(err, f.Close())
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	o.count.syncs++
	if err != nil {
		o.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		wake(&o.freed)
		return o.broken
	}
	o.synced = target
	if o.waitDisk <= target {
		target = o.seq
	}
	o.reveal(target)
	return nil
}

// reveal lets readers have events up to seq. The caller holds mu.
func (o *Outbox) reveal(seq uint64) {
	if seq > o.visible {
		o.visible = seq
		wake(&o.grown)
	}
}

// syncSegments puts segments on the disk that were closed without a sync.
func syncSegments(segs []segment) error {
	var errs []error
	for _, s := range segs {
		f, err := os.Open(s.path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, datasync(f), f.Close())
	}
	return errors.Join(errs...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the configured folder, or one in it
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// noSpace marks an error of a full disk as ErrFull: what helps is the same.
func noSpace(err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	return err
}
