package engine_test

import (
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
)

func benchmarkConn(b *testing.B) clickhouse.Conn {
	b.Helper()
	options, err := clickhouse.ParseDSN(enginetest.Start(b))
	if err != nil {
		b.Fatal(err)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

func BenchmarkSelectOne(b *testing.B) {
	conn := benchmarkConn(b)
	for b.Loop() {
		var one uint8
		if err := conn.QueryRow(b.Context(), "SELECT 1").Scan(&one); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInsert20000(b *testing.B) {
	conn := benchmarkConn(b)
	if err := conn.Exec(b.Context(), rowTable); err != nil {
		b.Fatal(err)
	}
	rows := makeRows(20000)
	for b.Loop() {
		if err := insert(b.Context(), conn, "INSERT INTO rows", rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(20000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkSelectMillion(b *testing.B) {
	conn := benchmarkConn(b)
	for b.Loop() {
		rows, err := conn.Query(b.Context(), "SELECT number, toString(number) FROM numbers(1000000)")
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := rows.Close(); err != nil || n != 1000000 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
