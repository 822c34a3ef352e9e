package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
)

// errShed is the verdict on a request that may be shed.
var errShed = fmt.Errorf("shed: %w", ErrFull)

// declareAfter is how long a gap may stay undeclared while the journal has no room for requests.
const declareAfter = time.Minute

// requestLimit is how far requests may fill the journal; the rest is for outcomes of admitted ones.
func (c *Config) requestLimit() int64 { return c.MaxBytes / 10 * 9 }

// admit decides whether size more bytes of a kind may be written: both results nil. A channel is one
// that is closed when it is worth asking again. The caller holds mu.
func (o *Outbox) admit(kind schemas.Kind, size int64) (<-chan struct{}, error) {
	switch {
	case o.broken != nil:
		return nil, o.broken
	case o.closing:
		return nil, ErrClosed
	}
	limit := o.cfg.MaxBytes
	switch kind {
	case schemas.KindWriter, schemas.KindGap: // small, few, and what the bound is proven by
		return nil, nil
	case schemas.KindRequest:
		limit = o.cfg.requestLimit()
	default:
	}
	if o.file != nil && o.rotationDue() {
		size += o.startBytes()
	}
	if o.used+size <= limit {
		return nil, nil
	}
	if kind == schemas.KindRequest {
		switch o.cfg.OnFull {
		case FullBlock:
			return waiting(&o.freed), nil
		case FullShed:
			return nil, errShed
		case FullFail:
		}
	}
	return nil, fmt.Errorf("%w: %d of %d bytes are used: let the publisher catch up, or raise max_bytes", ErrFull, o.used, o.cfg.MaxBytes)
}

// refuse ends a Record that was not written.
func (o *Outbox) refuse(rec *schemas.Record, verdict error) error {
	shed := rec.Event.Kind == schemas.KindRequest && o.cfg.OnFull == FullShed && errors.Is(verdict, ErrFull)
	if shed {
		if err := o.shed.add(schemas.At(time.Now())); err != nil {
			verdict, shed = fmt.Errorf("%w: and it cannot be counted: %w", verdict, err), false
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if shed {
		o.count.shed++
		rec.Shed = true
		return nil
	}
	o.count.refused++
	return verdict
}

// declareShed writes a gap event for what was shed, when there is room for requests again or when
// the gap has been silent for long.
func (o *Outbox) declareShed(_ context.Context) error {
	o.shed.declaring.Lock()
	defer o.shed.declaring.Unlock()
	gap := o.shed.undeclared()
	if gap.Count == 0 {
		return nil
	}
	o.mu.Lock()
	room := o.used < o.cfg.MaxBytes/10*8 // well below the limit, so that one gap event tells of all that was shed
	late := time.Since(gap.From.Std()) > declareAfter && o.used < o.cfg.MaxBytes
	closing := o.closing
	o.mu.Unlock()
	if closing || !room && !late {
		return nil
	}
	rec := schemas.Record{Event: schemas.Event{Kind: schemas.KindGap, Gap: &gap}}
	if err := o.recordAll([]*schemas.Record{&rec}, false); err != nil {
		return fmt.Errorf("declare gap of %d exchanges: %w", gap.Count, err)
	}
	return o.shed.declare(gap, rec.Event.Seq)
}

// sabotaged reports whether this record is to be dropped silently, see Config.Sabotage.
func (o *Outbox) sabotaged(rec *schemas.Record) bool {
	if o.cfg.Sabotage != SabotageSkipJournal || rec.Event.Kind != schemas.KindRequest {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count.sabotaged++
	return o.count.sabotaged%20 == 0
}

// warnDisk says at the start what would otherwise be an error at night.
func warnDisk(cfg Config, log *slog.Logger) {
	if free, err := freeBytes(cfg.Dir); err == nil && free < cfg.MaxBytes {
		log.Warn("journal bound exceeds the free disk", slog.String("dir", cfg.Dir), slog.Int64("free_bytes", free), slog.Int64("max_bytes", cfg.MaxBytes))
	}
}
