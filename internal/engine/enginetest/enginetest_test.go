package enginetest_test

import (
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStartGivesEachTestItsDatabase(t *testing.T) {
	t.Parallel()
	dsn := enginetest.Start(t)
	other := enginetest.Start(t)
	if dsn == other {
		t.Fatalf("two calls gave the same database: %s", dsn)
	}
	options, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := conn.QueryRow(t.Context(), "SELECT currentDatabase()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	if name != options.Auth.Database {
		t.Errorf("current database is %q, want %q", name, options.Auth.Database)
	}
}
