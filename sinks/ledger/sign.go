package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
	"uuid"

	"github.com/google/renameio/v2"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// seal makes what is in memory durable and signs the tree's head, if there are new leaves. s.mu is held.
func (s *Sealer) seal(ctx context.Context) error {
	if s.failed != nil {
		return s.failed
	}
	if s.tree == nil || s.tree.Size() == s.newest.head.Size {
		return nil
	}
	if err := s.durable(ctx, s.flush); err != nil || len(s.ahead) > 0 {
		return err
	}
	s.die("seal-flush")
	head := ledger.Checkpoint{
		Origin: s.config.Origin, Size: s.tree.Size(), Root: s.tree.Root(), Time: time.Now().UTC(), Clock: s.config.Clock(),
		Stream: s.cursor.Stream, Position: s.cursor.Position,
	}
	signers, err := s.config.Keys.Signers() // before the fence: a head that nobody can sign must not bind others
	if err != nil {
		return s.fail(err)
	}
	if err := s.fence.move(ctx, s.config.Fence, head.Position, Head{head.Size, head.Root}); err != nil {
		if errors.Is(err, sinks.ErrConflict) {
			return s.fail(fmt.Errorf("another sealer signs this ledger: %w", err))
		}
		return err
	}
	s.die("seal-fence")
	text, err := head.Sign(signers...)
	if err != nil {
		return s.fail(err)
	}
	err = s.durable(ctx, func() error {
		if err := renameio.WriteFile(s.checkpointPath(), text, 0o600); err != nil {
			return err
		}
		return syncDir(s.config.Dir)
	})
	if err != nil {
		return err
	}
	s.die("seal-sign")
	s.newest = signed{head, text}
	s.announce()
	if err := s.config.Keys.Signed(signers); err != nil {
		s.config.Log.ErrorContext(ctx, "a replaced key could not be retired", slog.Any("error", err))
	}
	return nil
}

// durable repeats what the disk refuses, until it succeeds or ctx ends.
func (s *Sealer) durable(ctx context.Context, write func() error) error {
	policy := retry.Policy{Max: 5 * time.Second, Notify: retry.Seldom(func(err error, _ int, _ time.Duration) {
		s.config.Log.WarnContext(ctx, "the ledger waits for its disk", slog.Any("error", err))
	})}
	if err := retry.Do(ctx, policy, func(context.Context) error { return write() }); err != nil {
		return fmt.Errorf("ledger %s: %w", s.config.Dir, err)
	}
	return nil
}

func (s *Sealer) flush() error {
	if err := s.tree.Flush(); err != nil {
		return err
	}
	return s.saveCursor()
}

func (s *Sealer) saveCursor() error {
	s.cursor.Head = Head{s.tree.Size(), s.tree.Root()}
	raw, err := jsonx.Marshal(&s.cursor)
	if err == nil {
		err = renameio.WriteFile(s.cursorPath(), raw, 0o600)
	}
	if err == nil {
		err = syncDir(s.config.Dir)
	}
	if err != nil {
		return fmt.Errorf("cursor of the ledger: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // G304: the ledger's folder
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// die ends the process as kill -9 does, where a crash test asks for it.
func (s *Sealer) die(step string) {
	if s.config.Sabotage != step {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}

// Run signs what no batch has signed in time, and publishes heads, until ctx ends. It returns what ended the sealing, nil
// when ctx did.
func (s *Sealer) Run(ctx context.Context) error {
	tick := time.NewTicker(s.config.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.news:
		case <-tick.C:
			if err := s.sealDue(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		s.publish(ctx)
	}
}

func (s *Sealer) sealDue(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	if time.Since(s.newest.head.Time) < s.config.Every/2 {
		return nil
	}
	return s.seal(ctx)
}

// publish holds no lock: a full journal may make it wait for what only further heads set free.
func (s *Sealer) publish(ctx context.Context) {
	s.mu.Lock()
	newest, recorded := s.newest, s.cursor.Recorded
	s.mu.Unlock()
	if s.config.Publish == nil || newest.head.Size <= recorded {
		return
	}
	if err := s.config.Publish(ctx, newest.head, newest.text); err != nil {
		s.config.Log.DebugContext(ctx, "the newest head is not recorded yet", slog.Uint64("size", newest.head.Size), slog.Any("error", err))
		return
	}
	s.mu.Lock()
	s.cursor.Recorded = max(s.cursor.Recorded, newest.head.Size)
	s.mu.Unlock()
}

// announce wakes Run for a head that is not published.
func (s *Sealer) announce() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Close signs the last head and gives the folder free. The pipeline must have ended. The head is published at the next start.
func (s *Sealer) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	var err error
	if s.failed == nil { // else it was said when it happened
		err = s.seal(ctx)
	}
	if err == nil && s.tree != nil && s.failed == nil {
		err = s.durable(ctx, s.flush) // also the position behind the last leaf
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Unlock())
		s.lock = nil
	}
	return err
}

// Stats tells how far the sealing is.
type Stats struct {
	Position uint64    // of the stream, in the tree
	Sealed   uint64    // position up to which all leaves are under the newest head
	Leaves   uint64    // in the tree
	Signed   uint64    // of them under the newest head
	SignedAt time.Time // of that head; zero: none yet
	Behind   bool      // a head that was signed before is ahead of the tree: nothing is signed
	Err      error     // what ended the sealing
}

// Stats may be called at any time; it never waits.
func (s *Sealer) Stats() Stats { return *s.stats.Load() }

// tell renews the stats. s.mu is held.
func (s *Sealer) tell() {
	newest := s.newest
	if newest.text != nil {
		s.head.Store(&newest)
	}
	head := &newest.head
	stats := Stats{
		Position: s.cursor.Position, Sealed: head.Position, Signed: head.Size, SignedAt: head.Time,
		Behind: len(s.ahead) > 0, Err: s.failed,
	}
	if s.tree != nil {
		stats.Leaves = s.tree.Size()
		if stats.Leaves == head.Size && !stats.Behind {
			stats.Sealed = s.cursor.Position // behind the head lie only messages that are no leaves
		}
	}
	s.stats.Store(&stats)
}

// fence is the newest head that anyone was about to sign, kept where all sealers of a shard see it.
type fence struct {
	key      string
	revision uint64
	value    fenceValue
}

type fenceValue struct {
	Head     Head      `json:"head"`
	Position uint64    `json:"position"` // of the stream, under the head
	Owner    uuid.UUID `json:"owner"`    // one start of a sealer
	Step     uint64    `json:"step"`
}

// Sealed returns the newest head of a stream that anyone was about to sign, and its position: tiles up to there are on
// disk, and whoever seals next signs nothing else. It serves those who do not seal themselves.
func Sealed(ctx context.Context, fenced sinks.Cursors, stream string) (position uint64, head Head, err error) {
	var f fence
	if err := f.load(ctx, fenced, stream); err != nil {
		return 0, Head{}, err
	}
	return f.value.Position, f.value.Head, nil
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
func (f *fence) move(ctx context.Context, store sinks.Cursors, position uint64, head Head) error {
	next := f.value
	next.Head, next.Position = head, position
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
