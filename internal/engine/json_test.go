package engine_test

import (
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
)

func TestDriverJSONColumn(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t))
	run(t, conn, "CREATE TABLE j (id UInt32, d JSON) ENGINE = MergeTree ORDER BY id")
	batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO j")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = batch.Close() }()
	if err := batch.Append(uint32(1), `{"tool":{"name":"search","args":[1,2]},"ok":true}`); err != nil {
		t.Fatal(err)
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	var text, name string
	if err := conn.QueryRow(t.Context(), "SELECT toString(d), d.tool.name::String FROM j").Scan(&text, &name); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, `"args":[`) || name != "search" {
		t.Errorf("document is %s, its name %q", text, name)
	}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"output_format_native_write_json_as_string": 1}))
	if err := conn.QueryRow(ctx, "SELECT d FROM j").Scan(&text); err != nil || !strings.Contains(text, "search") {
		t.Errorf("document as text is %q: %v", text, err)
	}
	var document clickhouse.JSON
	if err := conn.QueryRow(t.Context(), "SELECT d FROM j").Scan(&document); err != nil {
		t.Errorf("document as such: %v", err)
	}
	if ok, found := document.ValueAtPath("ok"); !found || ok == nil {
		t.Errorf("the document lost its members: %v", document.NestedMap())
	}
}

// TestDriverReadonly shows that the driver works with readonly=1 beside other settings.
func TestDriverReadonly(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t), func(o *clickhouse.Options) {
		o.Settings = clickhouse.Settings{"readonly": 1, "max_execution_time": 5, "max_result_rows": 100}
	})
	if got := count(t, conn, "SELECT count() FROM numbers(10) WHERE number < ?", 4); got != 4 {
		t.Errorf("%d rows, want 4", got)
	}
	if err := conn.Exec(t.Context(), "CREATE TABLE x (a Int8) ENGINE = Memory"); codeOf(err) != 164 {
		t.Errorf("a CREATE gave %v, want code 164", err)
	}
}
