// Package ledger seals an event stream: each event becomes a leaf of the Merkle tree of its shard, and the head of the tree
// is signed every few seconds.
//
//	stream ── sinks.Pipeline ── Sealer ── tiles, cursor, fence, signed head, `checkpoint` event
//
// Order of a head: tiles and cursor are synced, the fence in the bus is moved by compare-and-set, then the head is signed
// and synced; Run publishes it. What came after the newest head is in memory only, and read again after a crash. Two sealers of one shard cannot both pass the fence; one that was set back (a restored backup, a
// cloned disk) signs nothing before it has come to every head it knows of, on the same root.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/mod/sumdb/note"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
	"github.com/chaintrail/chaintrail/sinks"
)

// Defaults of a [Config].
const (
	DefaultEvery  = 10 * time.Second
	DefaultLeaves = 1000
)

var (
	// ErrLocked is returned when another process seals into the folder.
	ErrLocked = errors.New("another process seals into this folder")
	// ErrFork is returned when the tree is not the one of a head that was signed before. Nothing more is signed: restore
	// the ledger's folder from its newest backup, or find out who signed.
	ErrFork = errors.New("the ledger is not the one that was signed before")
)

// Head is a tree that was signed or is about to be.
type Head struct {
	Size uint64    `json:"size"`
	Root seal.Hash `json:"root"`
}

// Keys sign heads. An audit/ledger.Keyring is one.
type Keys interface {
	Signers() ([]note.Signer, error)     // of the next head
	Verifiers() ([]note.Verifier, error) // public halves, those of replaced keys included
	Signed(by []note.Signer) error       // tells that a head is out with these signatures
}

// Config of a [Sealer].
type Config struct {
	Dir    string // of the ledger; made with mode 0700
	Origin string // see ledger.Checkpoint
	Keys   Keys
	// Fence keeps the newest head that anyone was about to sign, under "seal." and the stream's name.
	Fence sinks.Cursors
	// Known are heads that were signed before, from anchors outside; the tree must come by each of them.
	Known []Head
	// Publish records a head in the stream. Run calls it and repeats it, also after a restart, until a `checkpoint` event of
	// this head or a later one was read. May be nil.
	Publish func(ctx context.Context, head ledger.Checkpoint, signed []byte) error
	Clock   func() string // says what is known of the clock; nil means unknown
	Every   time.Duration // between two heads under traffic; 0 means DefaultEvery
	Leaves  uint64        // a head is due earlier after so many leaves; 0 means DefaultLeaves
	// Sabotage names a step behind which the process ends at once: "seal-flush", "seal-fence" or "seal-sign". For tests only.
	Sabotage string
	Log      *slog.Logger
}

// Sealer is a [sinks.Sink] of one event stream. Run and the pipeline that uses it may run at once.
type Sealer struct {
	config Config

	stats atomic.Pointer[Stats]
	head  atomic.Pointer[signed] // the newest; nil: none yet
	news  chan struct{}          // a head that is not published; of size 1

	mu     sync.Mutex // covers the fields below; held while a head is made, also when the bus is away
	lock   *flock.Flock
	tree   *ledger.Tree
	cursor cursor // its position and head are those of the tree in memory; on disk as of the newest flush
	fence  fence
	ahead  []Head // known heads that the tree has not come to
	newest signed
	failed error // what ended the sealing
}

// signed is a head that is out.
type signed struct {
	head ledger.Checkpoint
	text []byte
}

// cursor is what is durably in the tree.
type cursor struct {
	Stream   string        `json:"stream"`
	Position uint64        `json:"position"`
	Head     Head          `json:"head"`
	Seen     sinks.Tracker `json:"seen"`
	// Recorded is the size of the largest head that a `checkpoint` event tells of.
	Recorded uint64 `json:"recorded"`
}

// New returns a sealer that has not touched the disk yet. Close it after the pipeline has ended.
func New(config Config) (*Sealer, error) {
	if config.Dir == "" || config.Origin == "" || config.Keys == nil || config.Fence == nil {
		return nil, errors.New("a sealer needs a folder, an origin, keys and a fence")
	}
	if config.Every <= 0 {
		config.Every = DefaultEvery
	}
	if config.Leaves == 0 {
		config.Leaves = DefaultLeaves
	}
	if config.Clock == nil {
		config.Clock = func() string { return "unknown" }
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Sealer{config: config, news: make(chan struct{}, 1)}
	s.stats.Store(&Stats{})
	return s, nil
}

// Resume implements sinks.Sink: it locks the folder, reads the tree and looks for every head that was signed before.
func (s *Sealer) Resume(ctx context.Context, stream string) (sinks.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	if err := s.resume(ctx, stream); err != nil {
		return sinks.State{}, s.fail(err)
	}
	return sinks.State{Position: s.cursor.Position, Leaves: s.tree.Size()}, nil
}

func (s *Sealer) resume(ctx context.Context, stream string) error {
	if err := os.MkdirAll(s.config.Dir, 0o700); err != nil {
		return err
	}
	s.lock = flock.New(filepath.Join(s.config.Dir, ".lock"))
	if ok, err := s.lock.TryLock(); err != nil || !ok {
		s.lock = nil
		return errors.Join(ErrLocked, err)
	}
	s.cursor = cursor{Stream: stream}
	raw, err := os.ReadFile(s.cursorPath())
	if err == nil {
		err = jsonx.UnmarshalStrict(raw, &s.cursor)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("cursor: %w", err)
	case s.cursor.Stream != stream:
		return fmt.Errorf("it is of stream %s, not of %s", s.cursor.Stream, stream)
	}
	if s.tree, err = ledger.Open(s.config.Dir, s.cursor.Head.Size); err != nil {
		return err
	}
	if root := s.tree.Root(); s.cursor.Head.Size > 0 && root != s.cursor.Head.Root {
		return fmt.Errorf("%w: the tiles of %d leaves have root %v, the cursor says %v", ledger.ErrTiles, s.tree.Size(), root, s.cursor.Head.Root)
	}
	return s.lookBack(ctx)
}

// lookBack gathers the heads that were signed before: the one beside the tiles, that of the fence, and those from outside.
func (s *Sealer) lookBack(ctx context.Context) error {
	known := append([]Head(nil), s.config.Known...)
	text, err := os.ReadFile(s.checkpointPath())
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	default:
		verifiers, err := s.config.Keys.Verifiers()
		if err != nil {
			return err
		}
		c, _, err := ledger.ReadCheckpoint(text, s.config.Origin, verifiers...)
		if err != nil {
			return fmt.Errorf("%s: %w", s.checkpointPath(), err)
		}
		known = append(known, Head{c.Size, c.Root})
		s.newest = signed{c, text}
		s.announce()
	}
	if err := s.fence.load(ctx, s.config.Fence, s.cursor.Stream); err != nil {
		return err
	}
	if s.fence.value.Head.Size > 0 {
		known = append(known, s.fence.value.Head)
	}
	for _, head := range known {
		if err := s.compare(head); err != nil {
			return err
		}
	}
	return nil
}

// compare holds the tree against a head that was signed before. One that is ahead is looked at when the tree is there.
func (s *Sealer) compare(head Head) error {
	size := s.tree.Size()
	switch {
	case head.Size > size:
		s.ahead = append(s.ahead, head)
		s.config.Log.Warn("the ledger is behind a head that was signed: nothing is signed before it is there again",
			slog.Uint64("size", size), slog.Uint64("signed", head.Size))
		return nil
	case head.Size == size:
		return s.same(head)
	case head.Size == 0:
		return nil
	}
	// The growth from the older head to this tree shows whether it is a beginning of it.
	r, err := ledger.NewReader(s.config.Dir, size, s.tree.Root())
	if err != nil {
		return err
	}
	proof, err := r.Consistency(head.Size)
	if err != nil {
		return err
	}
	if err := ledger.CheckConsistency(proof, size, s.tree.Root(), head.Size, head.Root); err != nil {
		return fmt.Errorf("%w: %w", ErrFork, err)
	}
	return nil
}

func (s *Sealer) same(head Head) error {
	if root := s.tree.Root(); root != head.Root {
		return fmt.Errorf("%w: with %d leaves its root is %v, signed was %v", ErrFork, head.Size, root, head.Root)
	}
	return nil
}

// Classify implements sinks.Sink.
func (s *Sealer) Classify(_ context.Context, _ uint64, entries []sinks.Entry) ([]sinks.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verdicts := make([]sinks.Verdict, len(entries))
	for i := range entries {
		writer, seq := entries[i].Writer()
		verdicts[i] = s.cursor.Seen.Seen(writer, seq, entries[i].Hash)
	}
	return verdicts, nil
}

// Store implements sinks.Sink. A head is signed when one is due.
func (s *Sealer) Store(ctx context.Context, batch sinks.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	if s.failed != nil {
		return s.failed
	}
	for i := range batch.Entries {
		e := &batch.Entries[i]
		s.read(e)
		if e.Leaf == sinks.NoLeaf {
			continue
		}
		if e.Leaf != s.tree.Size() {
			return s.fail(fmt.Errorf("%w: the event at position %d is leaf %d, the tree has %d", ErrFork, e.Position, e.Leaf, s.tree.Size()))
		}
		s.tree.Append(e.Hash)
		if err := s.arrive(); err != nil {
			return s.fail(err)
		}
	}
	s.cursor.Position = batch.Last
	if s.tree.Size()-min(s.newest.head.Size, s.tree.Size()) >= s.config.Leaves || time.Since(s.newest.head.Time) >= s.config.Every {
		return s.seal(ctx)
	}
	return nil
}

// read notes heads that the stream tells of.
func (s *Sealer) read(e *sinks.Entry) {
	if e.Event == nil || e.Event.Checkpoint == nil || e.Event.Checkpoint.Origin != s.config.Origin {
		return
	}
	s.cursor.Recorded = max(s.cursor.Recorded, e.Event.Checkpoint.Size)
}

// arrive compares the tree with known heads that it has come to.
func (s *Sealer) arrive() error {
	if len(s.ahead) == 0 {
		return nil
	}
	left := s.ahead[:0]
	for _, head := range s.ahead {
		if head.Size != s.tree.Size() {
			left = append(left, head)
			continue
		}
		if err := s.same(head); err != nil {
			return err
		}
	}
	s.ahead = left
	return nil
}

func (s *Sealer) fail(err error) error {
	s.failed = fmt.Errorf("ledger %s: %w", s.config.Dir, err)
	return s.failed
}

func (s *Sealer) cursorPath() string     { return filepath.Join(s.config.Dir, "cursor.json") }
func (s *Sealer) checkpointPath() string { return filepath.Join(s.config.Dir, "checkpoint") }
