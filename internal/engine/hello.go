package engine

import (
	"strconv"
	"strings"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// helloQuery is the first query of clickhouse-go on every connection. It decodes the one answer by its own revision of
// the native protocol, and everything after it by the revision that the answer names. The embedded engine writes
// revision 0 only, so that this answer is made here and names revision 0.
const helloQuery = "SELECT displayName(), version(), revision(), timezone()"

func isHello(sql string) bool { return strings.TrimSpace(sql) == helloQuery }

// hello encodes the answer for a client of the revision.
func hello(revision, version, timezone string) ([]byte, error) {
	number, err := strconv.ParseUint(revision, 10, 32)
	if err != nil {
		return nil, refuse(400, codeBadArguments, "BAD_ARGUMENTS", "client_protocol_version is no number")
	}
	block := proto.NewBlock()
	for _, col := range []struct{ name, kind string }{
		{"displayName()", "String"}, {"version()", "String"}, {"revision()", "UInt32"}, {"timezone()", "String"},
	} {
		if err := block.AddColumn(col.name, column.Type(col.kind)); err != nil {
			return nil, err
		}
	}
	if err := block.Append("chaintrail-engine", version, uint32(0), timezone); err != nil {
		return nil, err
	}
	buffer := new(chproto.Buffer)
	if err := block.Encode(buffer, number); err != nil {
		return nil, err
	}
	return buffer.Buf, nil
}

// emptyBlock encodes a block of revision 0 with columns but no rows. The engine writes nothing at all for a result
// without rows; a server sends this block, from which drivers learn the columns.
func emptyBlock(columns [][2]string) []byte {
	buffer := new(chproto.Buffer)
	buffer.PutUVarInt(uint64(len(columns)))
	buffer.PutUVarInt(0)
	for _, column := range columns {
		buffer.PutString(column[0])
		buffer.PutString(column[1])
	}
	return buffer.Buf
}
