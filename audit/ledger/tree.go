package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/chaintrail/chaintrail/schemas/seal"
)

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

// ErrTiles is returned for a ledger whose tiles are missing, cut or do not fit together. Restore them from a backup, or
// rebuild them from the events.
var ErrTiles = errors.New("the ledger's tiles are damaged")

// Tree grows a tree of hashes on disk. Not for concurrent use.
type Tree struct {
	dir  string
	size uint64
	// edge holds, by level, the hashes of the tile that is not full yet; each stands for 256^level leaves.
	edge    [][]tlog.Hash
	full    []written // tiles that became full since the last Flush
	flushed []uint64  // by level, how many of its hashes are on disk
}

type written struct {
	level int
	index uint64
	data  []byte
}

// Open opens the tree of a folder as it was with size leaves; what is there beyond them is written again. A size of 0
// begins a tree; the folder is made when the first tile is.
func Open(dir string, size uint64) (*Tree, error) {
	t := &Tree{dir: dir, size: size}
	for level := 0; size>>(tileHeight*level) > 0; level++ {
		count := size >> (tileHeight * level)
		width := int(count % tileWidth)
		hashes := make([]tlog.Hash, 0, tileWidth)
		if width > 0 {
			data, err := readTile(dir, level, count/tileWidth, width)
			if err != nil {
				return nil, err
			}
			for i := range width {
				hashes = append(hashes, tlog.Hash(data[i*tlog.HashSize:]))
			}
		}
		t.edge, t.flushed = append(t.edge, hashes), append(t.flushed, count)
	}
	return t, nil
}

// Size is the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// Append adds a leaf: the hash of a sealed event as [seal.Event] gives it. Nothing is written before Flush.
func (t *Tree) Append(leaf seal.Hash) {
	t.add(0, tlog.Hash(leaf))
	t.size++
}

func (t *Tree) add(level int, h tlog.Hash) {
	if level == len(t.edge) {
		t.edge, t.flushed = append(t.edge, make([]tlog.Hash, 0, tileWidth)), append(t.flushed, 0)
	}
	t.edge[level] = append(t.edge[level], h)
	if len(t.edge[level]) < tileWidth {
		return
	}
	index := t.size >> (tileHeight * (level + 1)) // Append counts the leaf afterwards
	t.full = append(t.full, written{level, index, encode(t.edge[level])})
	up := subtree(t.edge[level])
	t.edge[level] = t.edge[level][:0]
	t.add(level+1, up)
}

// Root is the hash of the whole tree (RFC 6962 section 2.1); that of an empty one is SHA-256 of nothing.
func (t *Tree) Root() seal.Hash {
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		return seal.Hash{}
	}
	begun := false
	// Perfect subtrees from the smallest, which is the rightmost, to the largest.
	for level := range t.edge {
		hashes := t.edge[level]
		for end := len(hashes); end > 0; {
			width := 1 << bits.TrailingZeros(uint(end))
			sub := subtree(hashes[end-width : end])
			if begun {
				root = tlog.NodeHash(sub, root)
			} else {
				root, begun = sub, true
			}
			end -= width
		}
	}
	return seal.Hash(root)
}

// subtree is the hash over a power of two of hashes.
func subtree(hashes []tlog.Hash) tlog.Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	row := append(make([]tlog.Hash, 0, len(hashes)), hashes...)
	for len(row) > 1 {
		for i := range len(row) / 2 {
			row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
		}
		row = row[:len(row)/2]
	}
	return row[0]
}

func encode(hashes []tlog.Hash) []byte {
	data := make([]byte, 0, len(hashes)*tlog.HashSize)
	for i := range hashes {
		data = append(data, hashes[i][:]...)
	}
	return data
}

// Flush writes what is new and syncs it. After an error the tree is as before; Flush may be called again.
func (t *Tree) Flush() error {
	dirs := map[string]bool{}
	for _, w := range t.full {
		if err := writeSynced(dirs, tilePath(t.dir, w.level, w.index, tileWidth), w.data); err != nil {
			return err
		}
	}
	for level, hashes := range t.edge {
		count := t.size >> (tileHeight * level)
		if len(hashes) == 0 || t.flushed[level] == count {
			continue
		}
		index := t.size >> (tileHeight * (level + 1))
		if err := writeSynced(dirs, tilePath(t.dir, level, index, len(hashes)), encode(hashes)); err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	for _, w := range t.full {
		// The full tile stands for its parts from now on.
		if err := os.RemoveAll(filepath.Dir(tilePath(t.dir, w.level, w.index, 1))); err != nil {
			return fmt.Errorf("remove parts of a full tile: %w", err)
		}
	}
	t.full = nil
	for level := range t.flushed {
		t.flushed[level] = t.size >> (tileHeight * level)
	}
	return nil
}

// writeSynced makes the file appear whole, and survive a power cut once its folder, which it notes, is synced too.
func writeSynced(dirs map[string]bool, path string, data []byte) error {
	dirs[filepath.Dir(path)] = true
	if err := makeSyncedDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := renameio.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}

// makeSyncedDir makes a folder; each new name on the way is synced in its parent.
func makeSyncedDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder of the ledger: %w", err)
	}
	if err := makeSyncedDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("folder of the ledger: %w", err)
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // a folder of the ledger
	if err != nil {
		return fmt.Errorf("folder of the ledger: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
