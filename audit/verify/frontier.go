package verify

import (
	"golang.org/x/mod/sumdb/tlog"

	"github.com/chaintrail/chaintrail/schemas/seal"
)

// frontier is the right edge of a Merkle tree (RFC 6962): enough to add leaves and to know the root.
type frontier struct {
	size  uint64
	edge  []tlog.Hash // roots of the perfect subtrees, the largest first
	broke bool        // a leaf is not known: there is no root from here on
}

func (f *frontier) add(leaf seal.Hash) {
	f.edge = append(f.edge, tlog.Hash(leaf))
	for n := f.size; n&1 == 1; n >>= 1 {
		last := len(f.edge) - 1
		f.edge[last-1] = tlog.NodeHash(f.edge[last-1], f.edge[last])
		f.edge = f.edge[:last]
	}
	f.size++
}

// root is that of a tree with at least one leaf.
func (f *frontier) root() seal.Hash {
	last := len(f.edge) - 1
	root := f.edge[last]
	for i := last - 1; i >= 0; i-- {
		root = tlog.NodeHash(f.edge[i], root)
	}
	return seal.Hash(root)
}
