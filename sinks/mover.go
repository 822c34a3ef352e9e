package sinks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
)

// mover is the storing side of one run of a pipeline.
type mover struct {
	p      *Pipeline
	state  State
	limits limits
	begun  time.Time // when the last batch began
}

// repeat stores an open range once more, exactly as it was cut.
func (w *mover) repeat(ctx context.Context, open Range) error {
	w.p.opts.Log.InfoContext(ctx, "repeating a range whose outcome is not known",
		slog.Uint64("first", open.First), slog.Uint64("last", open.Last))
	entries := make([]Entry, 0, open.Count)
	for after := open.First - 1; after < open.Last; after = entries[len(entries)-1].Position {
		more, err := w.p.readChunk(ctx, after, open.Count-len(entries))
		if err != nil {
			return err
		}
		entries = append(entries, more...)
		if n := len(entries); n == 0 || entries[n-1].Position > open.Last || n >= open.Count {
			break
		}
	}
	if n := len(entries); n != open.Count || entries[0].Position != open.First || entries[n-1].Position != open.Last ||
		digest(entries) != open.Digest {
		return fmt.Errorf("%w: %s from %d to %d", ErrNotRepeatable, w.p.source.Name(), open.First, open.Last)
	}
	batch := Batch{Range: open, Leaves: w.state.Leaves}
	for _, e := range entries {
		switch {
		case e.Transient, open.skips(e.Position):
			continue
		case e.failure != nil: // another version decoded it
			return fmt.Errorf("repeat %s at %d: %w", w.p.source.Name(), e.Position, e.failure)
		}
		batch.add(e)
	}
	w.p.stats.update(func(s *Stats) { s.Repeated++ })
	return w.store(ctx, batch)
}

// move gathers chunks to batches and stores them.
func (w *mover) move(ctx context.Context, chunks <-chan chunk) error {
	var pending []Entry
	for {
		if len(pending) == 0 {
			c, ok := <-chunks
			if !ok {
				return nil
			}
			pending = c.entries
		}
		pending = w.gather(ctx, pending, chunks)
		if err := ctx.Err(); err != nil {
			return err
		}
		n, _ := w.limits.cut(pending)
		w.begun = time.Now()
		taken, err := w.take(ctx, pending[:n])
		if err != nil {
			return err
		}
		pending = pending[taken:]
	}
}

// gather adds chunks until a batch is full, or until there is nothing more and the linger time is over. Behind a full
// chunk lie more: then the time begins anew, since few large batches cost a store much less than many small ones.
func (w *mover) gather(ctx context.Context, pending []Entry, chunks <-chan chunk) []Entry {
	timer := time.NewTimer(time.Until(w.begun.Add(w.p.opts.Linger)))
	defer timer.Stop()
	for {
		if _, full := w.limits.cut(pending); full {
			return pending
		}
		c, ok := next(ctx, chunks, timer.C)
		if !ok {
			return pending
		}
		pending = append(pending, c.entries...)
		if c.full {
			timer.Reset(w.p.opts.Linger)
		}
	}
}

// next returns what is there, else what comes before the end of the time.
func next(ctx context.Context, chunks <-chan chunk, end <-chan time.Time) (c chunk, ok bool) {
	select {
	case c, ok = <-chunks:
		return c, ok
	default:
	}
	select {
	case c, ok = <-chunks:
	case <-end:
	case <-ctx.Done():
	}
	return c, ok
}

// take makes a batch of entries and stores it; it returns how many of them are done.
func (w *mover) take(ctx context.Context, entries []Entry) (int, error) {
	candidates := make([]Entry, 0, len(entries))
	for i := range entries {
		if entries[i].failure == nil && !entries[i].Transient {
			candidates = append(candidates, entries[i])
		}
	}
	verdicts, err := w.p.sink.Classify(ctx, entries[0].Position, candidates)
	if err != nil {
		return 0, fmt.Errorf("classify %s from %d: %w", w.p.source.Name(), entries[0].Position, err)
	}
	if len(verdicts) != len(candidates) {
		return 0, fmt.Errorf("classify %s: %d verdicts for %d entries", w.p.source.Name(), len(verdicts), len(candidates))
	}
	batch := Batch{Leaves: w.state.Leaves, Entries: candidates[:0]}
	next := 0
	last := -1 // index of the last skipped entry
	for i := range entries {
		e := entries[i]
		verdict := VerdictNew
		if e.failure == nil && !e.Transient {
			verdict = verdicts[next]
			next++
		}
		keep, err := w.judge(ctx, &e, verdict)
		if err != nil {
			return 0, err
		}
		switch {
		case keep:
			batch.add(e)
		case e.Transient: // known by its role
		case last >= 0 && last == i-1:
			batch.Skip[len(batch.Skip)-1][1], last = e.Position, i
		default:
			batch.Skip, last = append(batch.Skip, [2]uint64{e.Position, e.Position}), i
		}
	}
	batch.First, batch.Last = entries[0].Position, entries[len(entries)-1].Position
	batch.Count, batch.Digest = len(entries), digest(entries)
	return len(entries), w.store(ctx, batch)
}

// judge counts what a verdict means, and dead-letters what cannot be stored.
func (w *mover) judge(ctx context.Context, e *Entry, verdict Verdict) (keep bool, err error) {
	switch {
	case e.failure != nil:
		w.p.stats.update(func(s *Stats) { s.Undecodable++ })
		return false, w.p.put(ctx, Letter{Message: e.Message, Reason: "undecodable", Err: e.failure})
	case e.Transient:
		w.p.stats.update(func(s *Stats) { s.Transient++ })
		return false, nil
	case verdict == VerdictNew:
		return true, nil
	}
	writer, seq := e.Writer()
	log := w.p.opts.Log.With(slog.Uint64("position", e.Position), slog.String("writer", writer.String()), slog.Uint64("seq", seq))
	switch verdict {
	case VerdictDuplicate:
		w.p.stats.update(func(s *Stats) { s.Duplicates++ })
		log.WarnContext(ctx, "event was stored before and is skipped")
		return false, nil
	case VerdictFork:
		w.p.stats.update(func(s *Stats) { s.Forks++ })
		log.ErrorContext(ctx, "fork: another event was stored under this number")
		return false, w.p.put(ctx, Letter{Message: e.Message, Reason: "fork"})
	case VerdictHole:
		w.p.stats.update(func(s *Stats) { s.Holes++ })
		log.ErrorContext(ctx, "events of this writer before this one are missing in the stream")
	case VerdictNew:
	}
	return true, nil
}

func (w *mover) store(ctx context.Context, batch Batch) error {
	if err := w.p.sink.Store(ctx, batch); err != nil {
		return fmt.Errorf("store %s from %d to %d: %w", w.p.source.Name(), batch.First, batch.Last, err)
	}
	w.state = State{Position: batch.Last, Leaves: batch.Leaves}
	now := time.Now()
	w.p.stats.update(func(s *Stats) {
		s.Position, s.StoredAt = batch.Last, now
		s.Batches++
		s.Stored += uint64(len(batch.Entries))
		if n := len(batch.Entries); n > 0 {
			s.Published = batch.Entries[n-1].Published
		}
	})
	return nil
}

// add appends an entry that is to be stored, and numbers it if it is a leaf.
func (b *Batch) add(e Entry) {
	if e.Event != nil && e.Event.Kind != schemas.KindCheckpoint {
		e.Leaf = b.Leaves
		b.Leaves++
	}
	b.Entries = append(b.Entries, e)
}
