package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
)

func errorsAsException(err error) (*clickhouse.Exception, bool) {
	return errors.AsType[*clickhouse.Exception](err)
}

type row struct {
	ID     uint64            `ch:"id"`
	At     time.Time         `ch:"at"`
	Kind   string            `ch:"kind"`
	Tool   string            `ch:"tool"`
	Writer uuid.UUID         `ch:"writer"`
	Hash   string            `ch:"hash"`
	Labels map[string]string `ch:"labels"`
	Sizes  []int32           `ch:"sizes"`
	Note   *string           `ch:"note"`
	Body   string            `ch:"body"`
}

const rowTable = `CREATE TABLE rows (
	id UInt64 CODEC(Delta, ZSTD), at DateTime64(6, 'UTC'), kind Enum8('request' = 1, 'outcome' = 2), tool LowCardinality(String),
	writer UUID, hash FixedString(4), labels Map(LowCardinality(String), String), sizes Array(Int32), note Nullable(String),
	body String CODEC(ZSTD(3)), INDEX tokens body TYPE tokenbf_v1(512, 3, 0) GRANULARITY 1
) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id SETTINGS non_replicated_deduplication_window = 1000`

func makeRows(n int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{
			ID: uint64(i), At: time.Date(2026, 11, 30, 12, 0, 0, i*1000, time.UTC), Kind: []string{"request", "outcome"}[i%2],
			Tool: fmt.Sprintf("tool-%d", i%7), Writer: uuid.UUID{15: byte(i)}, Hash: fmt.Sprintf("%04d", i%10000),
			Labels: map[string]string{"host": "a'b\\c\x00"}, Sizes: []int32{int32(i), -1}, Body: "naïve\n\t\x00" + strings.Repeat("x", i%50),
		}
		if i%3 == 0 {
			rows[i].Note = new("n")
		}
	}
	return rows
}

func insert(ctx context.Context, conn clickhouse.Conn, sql string, rows []row) error {
	batch, err := conn.PrepareBatch(ctx, sql)
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	for i := range rows {
		if err := batch.AppendStruct(&rows[i]); err != nil {
			return err
		}
	}
	return batch.Send()
}

func TestDriverRoundTrip(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		compression clickhouse.CompressionMethod
	}{
		{"plain", clickhouse.CompressionNone},
		{"lz4", clickhouse.CompressionLZ4},
		{"zstd", clickhouse.CompressionZSTD},
		{"gzip", clickhouse.CompressionGZIP},
		{"deflate", clickhouse.CompressionDeflate},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn := open(t, enginetest.Start(t), func(o *clickhouse.Options) {
				o.Compression = &clickhouse.Compression{Method: test.compression, Level: 1}
			})
			run(t, conn, rowTable)
			want := makeRows(5000)
			if err := insert(t.Context(), conn, "INSERT INTO rows", want); err != nil {
				t.Fatal(err)
			}
			var got []row
			if err := conn.Select(t.Context(), &got, "SELECT * FROM rows WHERE id >= ? ORDER BY id", 0); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rows changed on the way (-sent +read):\n%s", diff[:min(len(diff), 2000)])
			}
		})
	}
}

func TestDriverArguments(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t))
	var text string
	var number uint64
	ctx := clickhouse.Context(t.Context(), clickhouse.WithParameters(clickhouse.Parameters{"text": "it's {x} \\t", "number": "18446744073709551615"}))
	if err := conn.QueryRow(ctx, "SELECT {text:String}, {number:UInt64}").Scan(&text, &number); err != nil {
		t.Fatal(err)
	}
	if number != 1<<64-1 || text != "it's {x} \t" { // a server takes the value as escaped text
		t.Errorf("parameters came back as %q and %d", text, number)
	}
	if got := count(t, conn, "SELECT count() FROM numbers(10) WHERE number IN (?, ?) AND ? = 'a''b'", 3, 4, "a'b"); got != 2 {
		t.Errorf("bound arguments found %d rows, want 2", got)
	}
}

func TestDriverSettingsHoldForOneStatement(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t))
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_result_rows": 7, "log_comment": "mine"}))
	setting := func(ctx context.Context, name string) string {
		var value string
		if err := conn.QueryRow(ctx, "SELECT toString(getSetting(?))", name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	if got := setting(ctx, "max_result_rows"); got != "7" {
		t.Errorf("max_result_rows is %s in its statement, want 7", got)
	}
	if got := setting(ctx, "log_comment"); !strings.HasSuffix(got, " mine") {
		t.Errorf("log_comment is %q, want it to end with the client's own", got)
	}
	if got := setting(t.Context(), "max_result_rows"); got != "0" {
		t.Errorf("max_result_rows is %s in the next statement, want 0", got)
	}
	if got := setting(t.Context(), "async_insert"); got != "false" {
		t.Errorf("async_insert is %s, want false", got)
	}
	run(t, conn, "SET max_result_rows = 3")
	if got := setting(t.Context(), "max_result_rows"); got != "0" {
		t.Errorf("a SET leaked into the next statement: max_result_rows = %s", got)
	}
}

func TestDriverErrors(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t))
	run(t, conn, "CREATE TABLE parts (a UInt32) ENGINE = MergeTree ORDER BY a PARTITION BY a")
	for _, test := range []struct {
		name string
		code int32
		do   func(ctx context.Context) error
	}{
		{"syntax", 62, func(ctx context.Context) error { return conn.Exec(ctx, "SELEC 1") }},
		{"unknown table", 60, func(ctx context.Context) error { return conn.Exec(ctx, "SELECT * FROM missing") }},
		{"unknown setting", 115, func(ctx context.Context) error {
			return conn.Exec(clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"no_such": 1})), "SELECT 1")
		}},
		{"two statements", 62, func(ctx context.Context) error { return conn.Exec(ctx, "SELECT 1; SELECT 2") }},
		{"time limit", 159, func(ctx context.Context) error {
			return conn.Exec(clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_execution_time": 1})),
				"SELECT count() FROM system.numbers WHERE NOT ignore(number)")
		}},
		{"too many partitions", 252, func(ctx context.Context) error {
			batch, err := conn.PrepareBatch(ctx, "INSERT INTO parts")
			if err != nil {
				return err
			}
			defer func() { _ = batch.Close() }()
			for i := range uint32(200) {
				if err := batch.Append(i); err != nil {
					return err
				}
			}
			return batch.Send()
		}},
		{"in the middle of a result", 395, func(ctx context.Context) error {
			rows, err := conn.Query(ctx, "SELECT throwIf(number = 300000), number FROM numbers(1000000) SETTINGS max_block_size = 1000, max_threads = 1")
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			read := 0
			for rows.Next() {
				read++
			}
			if read == 0 {
				return errors.New("nothing was streamed before the error")
			}
			return rows.Err()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := test.do(t.Context()); codeOf(err) != test.code {
				t.Errorf("error is %v, want code %d", err, test.code)
			}
		})
	}
}

func TestDriverUnknownDatabase(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t), func(o *clickhouse.Options) { o.Auth.Database = "no`such" })
	if err := conn.Exec(t.Context(), "SELECT 1"); codeOf(err) != 81 {
		t.Errorf("error is %v, want code 81", err)
	}
}

func TestDriverEmptyResultHasColumns(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t))
	rows, err := conn.Query(t.Context(), "SELECT number AS n, toString(number) AS `odd name` FROM numbers(3) WHERE n > ?", 5)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	if diff := cmp.Diff([]string{"n", "odd name"}, rows.Columns()); diff != "" {
		t.Errorf("columns of an empty result (-want +got):\n%s", diff)
	}
	if rows.Next() {
		t.Error("an empty result has a row")
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
}

func TestDeduplicationToken(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t))
	run(t, conn, rowTable)
	run(t, conn, "CREATE TABLE per_tool (tool String, n UInt64) ENGINE = SummingMergeTree ORDER BY tool SETTINGS non_replicated_deduplication_window = 1000")
	run(t, conn, "CREATE MATERIALIZED VIEW per_tool_view TO per_tool AS SELECT tool, count() AS n FROM rows GROUP BY tool")
	send := func(token string, rows []row) {
		t.Helper()
		ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{
			"insert_deduplication_token": token, "deduplicate_blocks_in_dependent_materialized_views": 1,
		}))
		if err := insert(ctx, conn, "INSERT INTO rows", rows); err != nil {
			t.Fatal(err)
		}
	}
	rows := makeRows(1000)
	send("S_0:1-1000:rows", rows)
	send("S_0:1-1000:rows", rows)
	send("S_0:1-1000:rows", rows)
	if got := count(t, conn, "SELECT count() FROM rows"); got != 1000 {
		t.Errorf("%d rows after the same block was sent three times, want 1000", got)
	}
	if got := count(t, conn, "SELECT sum(n) FROM per_tool"); got != 1000 {
		t.Errorf("the view counted %d rows, want 1000", got)
	}
	send("S_0:1001-2000:rows", rows)
	if got := count(t, conn, "SELECT count() FROM rows"); got != 2000 {
		t.Errorf("%d rows after another token, want 2000", got)
	}
}

func TestConcurrentStatements(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t), func(o *clickhouse.Options) { o.MaxOpenConns = 40 })
	run(t, conn, "CREATE TABLE c (worker UInt32, n UInt32) ENGINE = MergeTree ORDER BY (worker, n)")
	var workers sync.WaitGroup
	for worker := range uint32(40) {
		workers.Go(func() {
			for n := range uint32(5) {
				batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO c")
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(batch.Append(worker, n), batch.Send()); err != nil {
					t.Error(err)
					return
				}
				var got uint64
				if err := conn.QueryRow(t.Context(), "SELECT count() FROM c WHERE worker = ?", worker).Scan(&got); err != nil || got != uint64(n)+1 {
					t.Errorf("worker %d reads %d of its rows (%v), want %d", worker, got, err, n+1)
				}
			}
		})
	}
	workers.Wait()
	if got := count(t, conn, "SELECT count() FROM c"); got != 200 {
		t.Errorf("%d rows, want 200", got)
	}
}
