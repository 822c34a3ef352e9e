package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
	"uuid"

	"go.uber.org/goleak"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
	"github.com/chaintrail/chaintrail/sinks"
	sealer "github.com/chaintrail/chaintrail/sinks/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const stream = "CHAINTRAIL_0"

// desk is what all sealers of one test share: keys, the fence in a real bus, and one writer's events.
type desk struct {
	t        *testing.T
	keys     *ledger.Keyring
	verifier note.Verifier
	fence    *bus.Cursors
	writer   uuid.UUID
	heads    []ledger.Checkpoint
	known    []sealer.Head
	log      *slog.Logger
	publish  func(context.Context, ledger.Checkpoint, []byte) error
	dirs     map[*sealer.Sealer]string
	read     map[string]uint64 // size of the newest head by folder
}

func (d *desk) signers() []note.Signer {
	d.t.Helper()
	signers, err := d.keys.Signers()
	if err != nil {
		d.t.Fatal(err)
	}
	return signers
}

// look notes a head that a folder has since the last time.
func (d *desk) look(dir string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		d.t.Fatal(err)
	}
	c, _, err := ledger.ReadCheckpoint(text, "", d.verifier)
	if err != nil {
		d.t.Fatal(err)
	}
	if c.Size != d.read[dir] {
		d.read[dir] = c.Size
		d.heads = append(d.heads, c)
	}
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{
		t: t, keys: ledger.NewKeyring(t.TempDir(), ""), writer: uuid.NewV7(),
		fence: bus.NewCursors(bustest.Start(t, nil).Shard(nil)), read: map[string]uint64{}, dirs: map[*sealer.Sealer]string{}, log: slog.New(slog.DiscardHandler),
	}
	key, err := d.keys.Make("audit.example")
	if err != nil {
		t.Fatal(err)
	}
	if d.verifier, err = ledger.NewVerifier(key.Public); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) open(dir string, leaves uint64) (*sealer.Sealer, sinks.State, error) {
	d.t.Helper()
	s, err := sealer.New(sealer.Config{
		Dir: dir, Origin: "audit.example/test/0", Keys: d.keys, Fence: d.fence,
		Publish: d.publish, Known: d.known,
		Every: time.Hour, Leaves: leaves, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.dirs[s] = dir
	state, err := s.Resume(d.t.Context(), stream)
	d.t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s, state, err
}

func (d *desk) mustOpen(dir string, leaves uint64) *sealer.Sealer {
	d.t.Helper()
	s, _, err := d.open(dir, leaves)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func content(seq uint64, salt string) []byte { return []byte(salt + strconv.FormatUint(seq, 10)) }

// store hands events first to last over as one batch.
func (d *desk) store(s *sealer.Sealer, first, last uint64, salt string) error {
	batch := sinks.Batch{First: first, Last: last, Leaves: last}
	for seq := first; seq <= last; seq++ {
		e := sinks.Entry{Position: seq, Hash: seal.Event(content(seq, salt)), Leaf: seq - 1}
		batch.Entries = append(batch.Entries, e)
	}
	err := s.Store(d.t.Context(), batch)
	d.look(d.dirs[s])
	return err
}

func (d *desk) mustStore(s *sealer.Sealer, first, last uint64) {
	d.t.Helper()
	if err := d.store(s, first, last, ""); err != nil {
		d.t.Fatal(err)
	}
}

// oracle is the root as the library computes it that has no part in the tiles.
func oracle(t *testing.T, size uint64) seal.Hash {
	t.Helper()
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, stored[i])
		}
		return out, nil
	})
	for seq := uint64(1); seq <= size; seq++ {
		more, err := tlog.StoredHashes(int64(seq-1), content(seq, ""), read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, more...)
	}
	root, err := tlog.TreeHash(int64(size), read)
	if err != nil {
		t.Fatal(err)
	}
	return seal.Hash(root)
}

func TestHeadsAreSignedWhenDue(t *testing.T) {
	t.Parallel()
	d, dir := newDesk(t), t.TempDir()
	s := d.mustOpen(dir, 1000)
	d.mustStore(s, 1, 10) // the first one is always due
	d.mustStore(s, 11, 900)
	d.mustStore(s, 901, 1500)
	d.mustStore(s, 1501, 1510)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.look(dir)
	again := d.mustOpen(dir, 1000)
	d.mustStore(again, 1511, 2600)
	var sizes []uint64
	for _, h := range d.heads {
		sizes = append(sizes, h.Size)
		if want := oracle(t, h.Size); h.Root != want {
			t.Errorf("root of %d leaves is %v, want %v", h.Size, h.Root, want)
		}
	}
	if want := []uint64{10, 1500, 1510, 2600}; !equal(sizes, want) {
		t.Errorf("heads of %v leaves, want %v", sizes, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err := ledger.ReadCheckpoint(text, "audit.example/test/0", d.verifier); err != nil || c.Size != 2600 || c.Position != 2600 {
		t.Errorf("the checkpoint file holds %+v (%v)", c, err)
	}
}

func equal(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Of two sealers of one shard the slower one stops.
func TestSecondSealerIsFencedOff(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.mustOpen(t.TempDir(), 10)
	d.mustStore(first, 1, 20)
	second := d.mustOpen(t.TempDir(), 10)
	d.mustStore(second, 1, 15) // behind what was signed: says nothing
	if n := len(d.heads); n != 1 {
		t.Fatalf("%d heads, want 1: one was signed behind another", n)
	}
	if !second.Stats().Behind {
		t.Error("the second sealer does not say that it is behind")
	}
	d.mustStore(second, 16, 40)
	if err := d.store(first, 21, 45, ""); !errors.Is(err, sinks.ErrConflict) {
		t.Errorf("the first sealer went on with %v, want %v", err, sinks.ErrConflict)
	}
	if last := d.heads[len(d.heads)-1]; last.Size != 40 || last.Root != oracle(t, 40) {
		t.Errorf("the newest head has %d leaves", last.Size)
	}
}

func TestOtherEventsAreAFork(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.mustOpen(t.TempDir(), 10)
	d.mustStore(first, 1, 20)
	other := d.mustOpen(t.TempDir(), 10)
	if err := d.store(other, 1, 40, "forged"); !errors.Is(err, sealer.ErrFork) {
		t.Errorf("other events under the same numbers gave %v, want %v", err, sealer.ErrFork)
	}
	if err := d.store(other, 41, 50, "forged"); !errors.Is(err, sealer.ErrFork) {
		t.Errorf("it went on with %v", err)
	}
	if len(d.heads) != 1 {
		t.Errorf("%d heads are signed, want 1", len(d.heads))
	}
}

// A folder that was set back catches up before anything is signed, and then goes on as if nothing had been.
func TestRestoredFolderDoesNotFork(t *testing.T) {
	t.Parallel()
	d, dir := newDesk(t), t.TempDir()
	s := d.mustOpen(dir, 10)
	d.mustStore(s, 1, 300)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s = d.mustOpen(dir, 10)
	d.mustStore(s, 301, 700)
	d.read[backup] = 300
	restored, state, err := d.open(backup, 10)
	if err != nil || state.Position != 300 {
		t.Fatalf("the copy resumes at %d (%v), want 300", state.Position, err)
	}
	d.mustStore(restored, 301, 650)
	d.mustStore(restored, 651, 800)
	if last := d.heads[len(d.heads)-1]; last.Size != 800 || last.Root != oracle(t, 800) || len(d.heads) != 3 {
		t.Errorf("%d heads, the newest of %d leaves; want 3, 800 and the same tree", len(d.heads), last.Size)
	}
}

// A head that was signed and not recorded, since the process ended in between, is recorded by the next one, once.
func TestHeadIsRecordedAfterARestart(t *testing.T) {
	t.Parallel()
	d, dir := newDesk(t), t.TempDir()
	s := d.mustOpen(dir, 10)
	d.mustStore(s, 1, 20)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	published := make(chan uint64, 10)
	d.publish = func(_ context.Context, c ledger.Checkpoint, _ []byte) error {
		published <- c.Size
		return errors.New("no journal") // only the stream tells that it is recorded
	}
	s = d.mustOpen(dir, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // exits when ctx ends
	if size := <-published; size != 20 {
		t.Errorf("a head of %d leaves is recorded, want 20", size)
	}
	// The stream tells of the head: from then on it is not repeated.
	note := &schemas.Event{Kind: schemas.KindCheckpoint, Checkpoint: &schemas.Checkpoint{Origin: "audit.example/test/0", Size: 20}}
	told := sinks.Batch{First: 21, Last: 21, Leaves: 20, Entries: []sinks.Entry{{Position: 21, Leaf: sinks.NoLeaf, Event: note}}}
	if err := s.Store(t.Context(), told); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Sealed != 21 || got.Leaves != 20 {
		t.Errorf("sealed up to %d with %d leaves, want 21 and 20", got.Sealed, got.Leaves)
	}
	cancel()
	if err := errors.Join(<-done, s.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	again := d.mustOpen(dir, 10)
	ctx, cancel = context.WithCancel(t.Context())
	go func() { done <- again.Run(ctx) }() // exits when ctx ends
	d.mustStore(again, 21, 40)             // as if they followed at position 22
	if size := <-published; size != 40 {
		t.Errorf("a head of %d leaves is recorded, want 40", size)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(dir string) error
		want   error
	}{
		"damaged tiles": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "tile", "0")) }, ledger.ErrTiles},
		"another key's checkpoint": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "checkpoint"), []byte("a\n1\n"+"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— x AAAAAAAA\n"), 0o600)
		}, ledger.ErrSignature},
		"half a checkpoint": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "checkpoint"), []byte("audit"), 0o600)
		}, ledger.ErrCheckpoint},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, dir := newDesk(t), t.TempDir()
			s := d.mustOpen(dir, 10)
			d.mustStore(s, 1, 300)
			if _, _, err := d.open(dir, 10); !errors.Is(err, sealer.ErrLocked) {
				t.Errorf("a second sealer in the folder gave %v, want %v", err, sealer.ErrLocked)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := test.damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, _, err := d.open(dir, 10); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
