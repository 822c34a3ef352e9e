package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// oracleTree is the tree over the stored rows, made without the ledger's tiles.
type oracleTree struct {
	hashes []tlog.Hash
	leaves int64
}

func (t *oracleTree) reader() tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			if index >= int64(len(t.hashes)) {
				return nil, fmt.Errorf("hash %d of %d", index, len(t.hashes))
			}
			out[i] = t.hashes[index]
		}
		return out, nil
	})
}

// readLeaves counts rows whose leaf is not the next one in the order of the stream, then compares with the newest head.
func (st *stored) readLeaves(ctx context.Context, conn driver.Conn, data string) error {
	var tree oracleTree
	var bad error
	err := each(ctx, conn, "SELECT raw, toString(leaf) FROM events ORDER BY stream, position", func(raw, leaf string) {
		var e schemas.Event
		if jsonx.Unmarshal([]byte(raw), &e) != nil || e.Kind == schemas.KindCheckpoint {
			return
		}
		if leaf != strconv.FormatInt(tree.leaves, 10) {
			st.misplaced++
		}
		more, err := tlog.StoredHashes(tree.leaves, []byte(raw), tree.reader())
		bad = errors.Join(bad, err)
		tree.hashes = append(tree.hashes, more...)
		tree.leaves++
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	head, err := newestHead(data)
	if errors.Is(err, fs.ErrNotExist) {
		st.unsealed = int(tree.leaves)
		return nil
	}
	if err != nil {
		return err
	}
	size := int64(head.Size) //nolint:gosec // G115: a count of this run
	st.unsealed = int(max(0, tree.leaves-size))
	if size > tree.leaves { // the sealer is ahead of the store
		st.unsealed = int(size - tree.leaves)
		return nil
	}
	root, err := tlog.TreeHash(size, tree.reader())
	if err == nil && seal.Hash(root) != head.Root {
		st.otherRoot++
	}
	return err
}

func newestHead(data string) (ledger.Checkpoint, error) {
	text, err := os.ReadFile(filepath.Join(data, "ledger", "0", "checkpoint")) //nolint:gosec // G304: our own temporary folder
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	keys, err := ledger.NewKeyring(filepath.Join(data, "keys"), "").Verifiers()
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	head, _, err := ledger.ReadCheckpoint(text, "", keys...)
	return head, err
}
