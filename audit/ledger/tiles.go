package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/chaintrail/chaintrail/schemas/seal"
)

// maxLevel is that of a tree with 2^63 leaves.
const maxLevel = 63 / tileHeight

// ErrRange is returned for a leaf or a tree that the ledger does not have.
var ErrRange = errors.New("not in the ledger")

// TilePath is the path of a tile in the form of C2SP tlog-tiles, such as tile/0/x001/234 or tile/1/000.p/17. A width of
// 256 is a full tile.
func TilePath(level int, index uint64, width int) string {
	t := tlog.Tile{H: tileHeight, L: level, N: int64(index), W: width} //nolint:gosec // below 2^63 as the tree is
	return "tile" + strings.TrimPrefix(t.Path(), "tile/"+strconv.Itoa(tileHeight))
}

func tilePath(dir string, level int, index uint64, width int) string {
	return filepath.Join(dir, filepath.FromSlash(TilePath(level, index, width)))
}

// readTile reads the first width hashes of a tile, from the full tile or a part that is wide enough.
func readTile(dir string, level int, index uint64, width int) ([]byte, error) {
	exact := tilePath(dir, level, index, width)
	data, err := os.ReadFile(exact) //nolint:gosec // a path of the ledger
	if errors.Is(err, fs.ErrNotExist) {
		data, err = readWider(dir, level, index, width)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrTiles, TilePath(level, index, width), err)
	case len(data)%tlog.HashSize != 0 || len(data) < width*tlog.HashSize || len(data) > tileWidth*tlog.HashSize:
		return nil, fmt.Errorf("%w: %s has %d bytes, want %d", ErrTiles, TilePath(level, index, width), len(data), width*tlog.HashSize)
	}
	return data[:width*tlog.HashSize], nil
}

func readWider(dir string, level int, index uint64, width int) ([]byte, error) {
	data, err := os.ReadFile(tilePath(dir, level, index, tileWidth))
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	parts := filepath.Dir(tilePath(dir, level, index, 1))
	list, readErr := os.ReadDir(parts)
	if readErr != nil {
		return nil, err
	}
	for _, entry := range list {
		if w, convErr := strconv.Atoi(entry.Name()); convErr == nil && w >= width && w < tileWidth {
			return os.ReadFile(filepath.Join(parts, entry.Name())) //nolint:gosec // a path of the ledger
		}
	}
	return nil, err
}

// Reader reads a ledger's tiles as of one head, which it believes: each tile that it reads is checked against the head's
// root. Concurrent use is allowed.
type Reader struct {
	dir  string
	tree tlog.Tree
}

// NewReader reads the tiles of a folder under a head.
func NewReader(dir string, size uint64, root seal.Hash) (*Reader, error) {
	if size >= 1<<63 {
		return nil, fmt.Errorf("%w: a tree of %d leaves", ErrRange, size)
	}
	return &Reader{dir: dir, tree: tlog.Tree{N: int64(size), Hash: tlog.Hash(root)}}, nil //nolint:gosec // checked above
}

// Leaf is the hash of a leaf.
func (r *Reader) Leaf(index uint64) (seal.Hash, error) {
	if index >= uint64(r.tree.N) { //nolint:gosec // not negative
		return seal.Hash{}, fmt.Errorf("leaf %d of %d: %w", index, r.tree.N, ErrRange)
	}
	hashes, err := r.hashes().ReadHashes([]int64{tlog.StoredHashIndex(0, int64(index))}) //nolint:gosec // below N
	if err != nil {
		return seal.Hash{}, fmt.Errorf("leaf %d: %w", index, tilesError(err))
	}
	return seal.Hash(hashes[0]), nil
}

// Leaves returns n leaves from one on, or as many as there are.
func (r *Reader) Leaves(from uint64, n int) ([]seal.Hash, error) {
	size := uint64(r.tree.N) //nolint:gosec // not negative
	if from >= size || n <= 0 {
		return nil, fmt.Errorf("leaf %d of %d: %w", from, size, ErrRange)
	}
	indexes := make([]int64, min(uint64(n), size-from))
	for i := range indexes {
		indexes[i] = tlog.StoredHashIndex(0, int64(from)+int64(i)) //nolint:gosec // below N
	}
	hashes, err := r.hashes().ReadHashes(indexes)
	if err != nil {
		return nil, fmt.Errorf("leaves from %d on: %w", from, tilesError(err))
	}
	return convert[seal.Hash](hashes), nil
}

// Inclusion proves that a leaf is in the tree (RFC 6962 section 2.1.1); check it with [CheckInclusion].
func (r *Reader) Inclusion(index uint64) ([]seal.Hash, error) {
	if index >= uint64(r.tree.N) { //nolint:gosec // not negative
		return nil, fmt.Errorf("leaf %d of %d: %w", index, r.tree.N, ErrRange)
	}
	proof, err := tlog.ProveRecord(r.tree.N, int64(index), r.hashes()) //nolint:gosec // below N
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d: %w", index, tilesError(err))
	}
	return convert[seal.Hash](proof), nil
}

// Consistency proves that the tree only grew since it had older leaves (RFC 6962 section 2.1.2); check it with
// [CheckConsistency].
func (r *Reader) Consistency(older uint64) ([]seal.Hash, error) {
	if older == 0 || older > uint64(r.tree.N) { //nolint:gosec // not negative
		return nil, fmt.Errorf("tree of %d leaves, of %d: %w", older, r.tree.N, ErrRange)
	}
	proof, err := tlog.ProveTree(r.tree.N, int64(older), r.hashes()) //nolint:gosec // at most N
	if err != nil {
		return nil, fmt.Errorf("prove the growth from %d leaves: %w", older, tilesError(err))
	}
	return convert[seal.Hash](proof), nil
}

func (r *Reader) hashes() tlog.HashReader { return tlog.TileHashReader(r.tree, tileReader{r.dir}) }

func tilesError(err error) error {
	if errors.Is(err, ErrTiles) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTiles, err)
}

// tileReader implements tlog.TileReader.
type tileReader struct{ dir string }

func (tileReader) Height() int                     { return tileHeight }
func (tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

func (r tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		if t.L > maxLevel || t.N < 0 {
			return nil, fmt.Errorf("%w: no such tile: %s", ErrTiles, t.Path())
		}
		data, err := readTile(r.dir, t.L, uint64(t.N), t.W)
		if err != nil {
			return nil, err
		}
		out[i] = data
	}
	return out, nil
}

// CheckInclusion checks that a leaf is at an index of the tree with this size and root. The error says that it is not.
func CheckInclusion(proof []seal.Hash, size uint64, root seal.Hash, index uint64, leaf seal.Hash) error {
	if size >= 1<<63 || index >= size {
		return fmt.Errorf("leaf %d of %d: %w", index, size, ErrRange)
	}
	err := tlog.CheckRecord(convert[tlog.Hash](proof), int64(size), tlog.Hash(root), int64(index), tlog.Hash(leaf)) //nolint:gosec // checked above
	if err != nil {
		return fmt.Errorf("%w: leaf %d of a tree of %d: %w", ErrProof, index, size, err)
	}
	return nil
}

// CheckConsistency checks that the tree with this size and root begins with the older one.
func CheckConsistency(proof []seal.Hash, size uint64, root seal.Hash, older uint64, olderRoot seal.Hash) error {
	if size >= 1<<63 || older == 0 || older > size {
		return fmt.Errorf("tree of %d leaves, of %d: %w", older, size, ErrRange)
	}
	err := tlog.CheckTree(convert[tlog.Hash](proof), int64(size), tlog.Hash(root), int64(older), tlog.Hash(olderRoot)) //nolint:gosec // checked above
	if err != nil {
		return fmt.Errorf("%w: from %d to %d leaves: %w", ErrProof, older, size, err)
	}
	return nil
}

// ErrProof is returned for a proof that does not prove what it should.
var ErrProof = errors.New("the proof does not hold")

func convert[To, From ~[32]byte](in []From) []To {
	out := make([]To, len(in))
	for i := range in {
		out[i] = To(in[i])
	}
	return out
}
