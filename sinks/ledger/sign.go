package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"uuid"

	"github.com/google/renameio/v2"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// sign moves the fence, signs the tree's head and publishes it. s.mu is held.
func (s *Sealer) sign(ctx context.Context) error {
	if s.failed != nil {
		return s.failed
	}
	if s.tree == nil || s.tree.Size() == s.signed || len(s.ahead) > 0 {
		return nil
	}
	head := ledger.Checkpoint{
		Origin: s.config.Origin, Size: s.tree.Size(), Root: s.tree.Root(), Time: time.Now().UTC(), Clock: s.config.Clock(),
		Stream: s.cursor.Stream, Position: s.cursor.Position,
	}
	if err := s.fence.move(ctx, s.config.Fence, Head{head.Size, head.Root}); err != nil {
		if errors.Is(err, sinks.ErrConflict) {
			return s.fail(fmt.Errorf("another sealer signs this ledger: %w", err))
		}
		return err
	}
	signed, err := head.Sign(s.config.Signers...)
	if err != nil {
		return s.fail(err)
	}
	if err := renameio.WriteFile(s.checkpointPath(), signed, 0o600); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	s.signed, s.signedAt = head.Size, head.Time
	if s.config.Publish == nil {
		return nil
	}
	if err := s.config.Publish(ctx, head, signed); err != nil {
		s.config.Log.ErrorContext(ctx, "a checkpoint was signed but not recorded; the next one covers it",
			slog.Uint64("size", head.Size), slog.Any("error", err))
	}
	return nil
}

// Run signs what no batch has signed in time, until ctx ends. It returns what ended the sealing, nil when ctx did.
func (s *Sealer) Run(ctx context.Context) error {
	tick := time.NewTicker(s.config.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.signDue(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

func (s *Sealer) signDue(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.signedAt) < s.config.Every/2 {
		return nil
	}
	return s.sign(ctx)
}

// Close signs the last head and gives the folder free. The pipeline must have ended.
func (s *Sealer) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.sign(ctx)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Unlock())
		s.lock = nil
	}
	return err
}

// Stats tells how far the sealing is.
type Stats struct {
	Position uint64    // of the stream, in the tree
	Leaves   uint64    // in the tree
	Signed   uint64    // of them under the newest head
	SignedAt time.Time // of that head; zero: none yet
	Behind   bool      // a head that was signed before is ahead of the tree: nothing is signed
	Err      error     // what ended the sealing
}

// Stats may be called at any time.
func (s *Sealer) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{Position: s.cursor.Position, Signed: s.signed, SignedAt: s.signedAt, Behind: len(s.ahead) > 0, Err: s.failed}
	if s.tree != nil {
		stats.Leaves = s.tree.Size()
	}
	return stats
}

// fence is the newest head that anyone was about to sign, kept where all sealers of a shard see it.
type fence struct {
	key      string
	revision uint64
	value    fenceValue
}

type fenceValue struct {
	Head  Head      `json:"head"`
	Owner uuid.UUID `json:"owner"` // one start of a sealer
	Step  uint64    `json:"step"`
}

func (f *fence) load(ctx context.Context, store sinks.Cursors, stream string) error {
	f.key = "seal." + stream
	raw, revision, err := store.Get(ctx, f.key)
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	f.revision, f.value = revision, fenceValue{}
	if len(raw) > 0 {
		if err := jsonx.UnmarshalStrict(raw, &f.value); err != nil {
			return fmt.Errorf("fence %s does not hold what this version writes: %w", f.key, err)
		}
	}
	f.value.Owner = uuid.NewV7()
	return nil
}

// move puts the fence at a head; sinks.ErrConflict says that another sealer moved it.
func (f *fence) move(ctx context.Context, store sinks.Cursors, head Head) error {
	next := f.value
	next.Head = head
	next.Step++
	raw, err := jsonx.Marshal(&next)
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	revision, err := store.Put(ctx, f.key, raw, f.revision)
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	f.revision, f.value = revision, next
	return nil
}
