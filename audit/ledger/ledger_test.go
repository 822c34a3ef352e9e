package ledger_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func leaf(i uint64) seal.Hash {
	return seal.Event(binary.BigEndian.AppendUint64(nil, i))
}

// reference is the tree as RFC 6962 writes it down, over leaf(0), leaf(1) ….
func reference(from, to uint64) tlog.Hash {
	switch n := to - from; n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return tlog.Hash(leaf(from))
	default:
		k := uint64(1) << (bits.Len64(n-1) - 1)
		return tlog.NodeHash(reference(from, from+k), reference(from+k, to))
	}
}

func grow(tb testing.TB, dir string, from, to uint64) *ledger.Tree {
	tb.Helper()
	t, err := ledger.Open(dir, from)
	if err != nil {
		tb.Fatal(err)
	}
	for i := from; i < to; i++ {
		t.Append(leaf(i))
	}
	return t
}

func flush(tb testing.TB, t *ledger.Tree) {
	tb.Helper()
	if err := t.Flush(); err != nil {
		tb.Fatal(err)
	}
}

func TestRootIsThatOfRFC6962(t *testing.T) {
	t.Parallel()
	tree, err := ledger.Open(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for size := range uint64(1200) {
		if got, want := tree.Root(), seal.Hash(reference(0, size)); got != want {
			t.Fatalf("root of %d leaves is %v, want %v", size, got, want)
		}
		tree.Append(leaf(size))
	}
}

// Whenever it is flushed, closed and opened, set back or not, the tree is the same.
func TestTreeGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "") //nolint:usetesting // one for each draw
		if err != nil {
			r.Fatal(err)
		}
		durable := []uint64{0}
		for range rapid.IntRange(1, 8).Draw(r, "rounds") {
			size := durable[len(durable)-rapid.IntRange(1, min(3, len(durable))).Draw(r, "back")] // a head before the newest tiles
			durable = durable[:slices.Index(durable, size)+1]
			tree := grow(t, dir, size, size+uint64(rapid.IntRange(0, 700).Draw(r, "more")))
			flush(t, tree)
			if size = tree.Size(); size != durable[len(durable)-1] {
				durable = append(durable, size)
			}
			if got, want := tree.Root(), seal.Hash(reference(0, size)); got != want {
				r.Fatalf("root of %d leaves is %v, want %v", size, got, want)
			}
			reopened, err := ledger.Open(dir, size)
			if err != nil {
				r.Fatal(err)
			}
			if reopened.Root() != tree.Root() {
				r.Fatalf("the tree of %d leaves has another root after opening", size)
			}
		}
	})
}

func TestProofs(t *testing.T) {
	t.Parallel()
	for _, size := range []uint64{1, 2, 255, 256, 257, 300, 65_535, 65_536, 65_792, 70_001} {
		t.Run(strconv.FormatUint(size, 10), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tree := grow(t, dir, 0, size)
			flush(t, tree)
			root := tree.Root()
			r, err := ledger.NewReader(dir, size, root)
			if err != nil {
				t.Fatal(err)
			}
			for _, index := range []uint64{0, size / 3, size / 2, size - 1} {
				got, err := r.Leaf(index)
				if err != nil || got != leaf(index) {
					t.Fatalf("leaf %d is %v (%v)", index, got, err)
				}
				proof, err := r.Inclusion(index)
				if err != nil {
					t.Fatal(err)
				}
				if err := ledger.CheckInclusion(proof, size, root, index, leaf(index)); err != nil {
					t.Errorf("leaf %d: %v", index, err)
				}
				if err := ledger.CheckInclusion(proof, size, root, index, leaf(size)); !errors.Is(err, ledger.ErrProof) {
					t.Errorf("another event passes for leaf %d: %v", index, err)
				}
				older := index + 1
				growth, err := r.Consistency(older)
				if err != nil {
					t.Fatal(err)
				}
				if err := ledger.CheckConsistency(growth, size, root, older, seal.Hash(reference(0, older))); err != nil {
					t.Errorf("growth from %d: %v", older, err)
				}
				if older < size {
					if err := ledger.CheckConsistency(growth, size, root, older, leaf(0)); older > 1 && !errors.Is(err, ledger.ErrProof) {
						t.Errorf("another older tree passes: %v", err)
					}
				}
			}
			if _, err := r.Inclusion(size); !errors.Is(err, ledger.ErrRange) {
				t.Errorf("a leaf that is not there gave %v", err)
			}
		})
	}
}

// Any bit that changes in a tile is noticed by whoever reads it under the head.
func TestDamagedTiles(t *testing.T) {
	t.Parallel()
	const size = 70_001
	for name, damage := range map[string]func(path string, data []byte) error{
		"flipped": func(path string, data []byte) error { data[0] ^= 1; return os.WriteFile(path, data, 0o600) },
		"cut":     func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)-1], 0o600) },
		"empty":   func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"removed": func(path string, _ []byte) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tree := grow(t, dir, 0, size)
			flush(t, tree)
			r, err := ledger.NewReader(dir, size, tree.Root())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, ledger.TilePath(0, 0, 256))
			data, err := os.ReadFile(path)
			if err == nil {
				err = damage(path, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Inclusion(0); !errors.Is(err, ledger.ErrTiles) {
				t.Errorf("a damaged tile gave %v, want %v", err, ledger.ErrTiles)
			}
			if _, err := r.Inclusion(5000); err != nil {
				t.Errorf("another part of the tree: %v", err)
			}
		})
	}
}

func keys(tb testing.TB, name string) (note.Signer, note.Verifier) {
	tb.Helper()
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		tb.Fatal(err)
	}
	verifier, err := ledger.NewVerifier(public)
	if err != nil {
		tb.Fatal(err)
	}
	return signer, verifier
}

func head() ledger.Checkpoint {
	return ledger.Checkpoint{
		Origin: "audit.example/7f3a/0", Size: 12, Root: leaf(1), Time: time.Date(2026, 12, 1, 1, 2, 3, 4000, time.UTC),
		Clock: "synchronized", Stream: "CHAINTRAIL_0", Position: 14,
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	signer, verifier := keys(t, "audit.example")
	_, stranger := keys(t, "audit.example")
	want := head()
	text, err := want.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	got, signatures, err := ledger.ReadCheckpoint(text, want.Origin, verifier)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(signatures) != 1 {
		t.Errorf("read with %d signatures (-want +got):\n%s", len(signatures), diff)
	}
	if _, _, err := ledger.ReadCheckpoint(text, want.Origin, stranger); !errors.Is(err, ledger.ErrSignature) {
		t.Errorf("another key gave %v, want %v", err, ledger.ErrSignature)
	}
	if _, _, err := ledger.ReadCheckpoint(text, "audit.example/7f3a/1", verifier); !errors.Is(err, ledger.ErrCheckpoint) {
		t.Errorf("the head of another ledger gave %v, want %v", err, ledger.ErrCheckpoint)
	}
	for i := range text {
		forged := slices.Clone(text)
		forged[i] ^= 1
		if _, _, err := ledger.ReadCheckpoint(forged, want.Origin, verifier); err == nil {
			t.Errorf("a head with bit %d of %q changed is accepted", i, text)
		}
	}
	bad := head()
	bad.Origin = "two\nlines"
	if _, err := bad.Sign(signer); !errors.Is(err, ledger.ErrCheckpoint) {
		t.Errorf("an origin of two lines gave %v", err)
	}
}

// A witness adds its own signature; alone it does not make a head.
func TestWitness(t *testing.T) {
	t.Parallel()
	signer, verifier := keys(t, "audit.example")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	data := append([]byte{0x04}, public...)
	sum := sha256.Sum256(append([]byte("witness.example\n"), data...))
	w, err := ledger.NewVerifier(fmt.Sprintf("witness.example+%x+%s", sum[:4], base64.StdEncoding.EncodeToString(data)))
	if err != nil {
		t.Fatal(err)
	}
	c := head()
	cosign := cosigner{w, private}
	text, err := c.Sign(signer, cosign)
	if err != nil {
		t.Fatal(err)
	}
	if _, signatures, err := ledger.ReadCheckpoint(text, c.Origin, verifier, w); err != nil || len(signatures) != 2 {
		t.Errorf("%d signatures (%v), want those of ledger and witness", len(signatures), err)
	}
	if text, err = c.Sign(cosign); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ledger.ReadCheckpoint(text, c.Origin, verifier, w); !errors.Is(err, ledger.ErrSignature) {
		t.Errorf("a head with the signature of a witness alone gave %v, want %v", err, ledger.ErrSignature)
	}
}

type cosigner struct {
	note.Verifier

	key ed25519.PrivateKey
}

func (c cosigner) Sign(msg []byte) ([]byte, error) {
	const at = 1_764_547_200
	sig := ed25519.Sign(c.key, append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", at), msg...))
	return append(binary.BigEndian.AppendUint64(nil, at), sig...), nil
}

func FuzzParseCheckpoint(f *testing.F) {
	c := head()
	f.Add(c.Text())
	f.Add("a\n1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ledger.ParseCheckpoint(text)
		if err != nil || got.Clock == "" || got.Stream == "" {
			return
		}
		again, err := ledger.ParseCheckpoint(got.Text())
		if err != nil || !cmp.Equal(got, again) {
			t.Errorf("%q is read as %+v, and again as %+v (%v)", text, got, again, err)
		}
	})
}

func FuzzNewVerifier(f *testing.F) {
	f.Add("witness.example+00000000+BA==")
	f.Fuzz(func(t *testing.T, key string) {
		if v, err := ledger.NewVerifier(key); err == nil && v.Verify([]byte("x\n"), []byte("y")) {
			t.Errorf("the key %q finds anything signed", key)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	tree, err := ledger.Open(b.TempDir(), 0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := range b.N {
		tree.Append(leaf(uint64(i)))
		if i%20_000 == 0 {
			flush(b, tree)
		}
	}
}
