package clickhouse

import (
	"encoding/binary"
	"io"
	"strings"
)

// block is what one insert into one table holds.
type block struct {
	table     string
	columns   []column
	positions []uint64 // of the message that each row comes from
	hint      int      // rows expected; sizes each column once
}

func (b *block) rows() int { return len(b.positions) }

func (b *block) query() string {
	names := make([]string, len(b.columns))
	for i, c := range b.columns {
		names[i] = c.label()
	}
	return "INSERT INTO " + b.table + " (" + strings.Join(names, ", ") + ")"
}

// native returns the rows from i up to j in ClickHouse's Native format (revision 0).
func (b *block) native(i, j int) io.Reader {
	n := &nativeReader{block: b, first: i, last: j, row: j}
	n.whole = binary.AppendUvarint(n.whole, uint64(len(b.columns)))
	n.whole = binary.AppendUvarint(n.whole, uint64(len(b.positions[i:j])))
	n.rest = n.whole
	return n
}

// nativeReader encodes while it is read: a piece at a time, so that a block of bodies is in memory once only.
type nativeReader struct {
	block       *block
	first, last int
	next        int // column that comes after the one under way
	row         int // of the column under way
	whole       []byte
	rest        []byte // of whole, not read yet
}

// Read implements [io.Reader].
func (n *nativeReader) Read(p []byte) (int, error) {
	if len(n.rest) == 0 && !n.more() {
		return 0, io.EOF
	}
	size := copy(p, n.rest)
	n.rest = n.rest[size:]
	return size, nil
}

// more encodes the next piece, if there is one.
func (n *nativeReader) more() bool {
	n.whole = n.whole[:0]
	for len(n.whole) < piece {
		if n.row == n.last {
			if n.next == len(n.block.columns) {
				break
			}
			c := n.block.columns[n.next]
			n.whole = appendText(appendText(n.whole, c.label()), c.wire())
			n.whole = append(n.whole, c.state()...)
			n.next, n.row = n.next+1, n.first
		}
		n.whole, n.row = n.block.columns[n.next-1].encode(n.whole, n.row, n.last)
	}
	n.rest = n.whole
	return len(n.whole) > 0
}
