package clickhouse

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"uuid"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
	"github.com/chaintrail/chaintrail/schemas"
)

// kinds makes a block with every kind of column, whose values differ from row to row.
func kinds(table string, rows int) *block {
	b := &block{table: table, hint: rows}
	name, text, blob, hash := nameColumn(b, "name"), textColumn(b, "text"), blobColumn(b, "blob"), hashColumn(b, "hash")
	number, sign, shard, priority := numberColumn(b, "number"), signedColumn(b, "sign"), shardColumn(b, "shard"), priorityColumn(b, "priority")
	flag, count, id, at, maybe := flagColumn(b, "flag"), countColumn(b, "count"), idColumn(b, "id"), timeColumn(b, "at"), maybeColumn(b, "maybe")
	yes, no := true, false
	for i := range rows {
		name.add(fmt.Sprint("name ", i/2)) // neighbours are alike
		text.add(strings.Repeat("é", i%300))
		blob.add([]byte(strings.Repeat("\x00\xff", i%200)))
		hash.add([]byte(fmt.Sprintf("%032d", i)))
		number.add(1<<63 + uint64(i))
		sign.add(-int64(i))
		shard.add(uint16(i))
		priority.add(-int32(i))
		flag.add(i%3 == 0)
		count.put(i << 12)
		id.put(uuid.UUID([]byte(fmt.Sprintf("%016d", i))))
		at.put(schemas.Time(i) * 1_234_567_891)
		maybe.add([]*bool{&yes, &no, nil}[i%3])
		b.positions = append(b.positions, uint64(i))
	}
	return b
}

// What is encoded here is stored as the driver would have stored it, for words of every width of key.
func TestBothWaysStoreTheSame(t *testing.T) {
	t.Parallel()
	conn, err := Open(enginetest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	const columns = "(name LowCardinality(String), text String, blob String, hash FixedString(32), number UInt64, sign Int64, shard UInt16, " +
		"priority Int32, flag Bool, count UInt32, id UUID, at DateTime64(6, 'UTC'), maybe Nullable(Bool)) ENGINE = MergeTree ORDER BY number"
	for _, table := range []string{"ours", "drivers"} {
		if err := conn.Exec(t.Context(), "CREATE TABLE "+table+" "+columns); err != nil {
			t.Fatal(err)
		}
	}
	for _, span := range [][2]int{{0, 1}, {0, 400}, {3, 5}, {0, 140_000}} {
		for table, blocks := range map[string]bool{"ours": false, "drivers": true} {
			in := &inserter{conn: conn, log: slog.New(slog.DiscardHandler), blocks: blocks}
			if err := in.send(t.Context(), kinds(table, span[1]), span[0], span[1], fmt.Sprint(span)); err != nil {
				t.Fatalf("insert into %s: %v", table, err)
			}
			if in.blocks != blocks {
				t.Errorf("%s were stored in the other way", table)
			}
		}
		got := map[string]string{}
		for _, table := range []string{"ours", "drivers"} {
			var sum string
			query := "SELECT concat(toString(count()), ' ', toString(sum(cityHash64(*))), ' ', toString(max(at)), ' ', toString(max(id)), ' ', max(name)) FROM " + table
			if err := conn.QueryRow(t.Context(), query).Scan(&sum); err != nil {
				t.Fatal(err)
			}
			got[table] = sum
		}
		if diff := cmp.Diff(got["drivers"], got["ours"]); diff != "" {
			t.Errorf("rows %v differ (-driver +ours):\n%s", span, diff)
		}
	}
}

func TestBlocksAreReadInAnyPieces(t *testing.T) {
	t.Parallel()
	b := kinds("t", 5000)
	want, err := io.ReadAll(b.native(1, 4999))
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 4*piece {
		t.Fatalf("the block has %d bytes, too few to be cut", len(want))
	}
	got, err := io.ReadAll(iotest.HalfReader(b.native(1, 4999)))
	if err != nil || string(got) != string(want) {
		t.Errorf("read in other pieces, the block has %d bytes, %v, want %d", len(got), err, len(want))
	}
}
