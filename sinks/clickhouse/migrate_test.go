package clickhouse_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

func TestMigrateIsRepeatable(t *testing.T) {
	t.Parallel()
	conn := store(t)
	applied, err := clickhouse.Migrate(t.Context(), conn, nil)
	if err != nil || len(applied) != 0 {
		t.Errorf("the second run applied %v, %v, want nothing", applied, err)
	}
	recorded, err := clickhouse.Recorded(t.Context(), conn)
	if err != nil || len(recorded) < 8 || recorded[2].Name != "0002_events.sql" || recorded[2].Applied.IsZero() {
		t.Errorf("recorded are %v, %v", recorded, err)
	}
}

func TestMigrateByManyAtOnce(t *testing.T) {
	t.Parallel()
	conn, err := clickhouse.Open(enginetest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var group errgroup.Group
	for range 4 {
		group.Go(func() error { _, err := clickhouse.Migrate(t.Context(), conn, nil); return err })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestChangedMigrationIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statement string
		want      error
		text      string
	}{
		"changed": {
			"ALTER TABLE schema_migrations UPDATE checksum = repeat('0', 64) WHERE version = 3 SETTINGS mutations_sync = 1",
			clickhouse.ErrMigrationChanged, "0003_interceptions.sql",
		},
		"newer": {
			"INSERT INTO schema_migrations VALUES (999, '0999_later.sql', repeat('0', 64), '2026-01-01 00:00:00')",
			clickhouse.ErrNewerSchema, "0999_later.sql",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := store(t)
			if err := conn.Exec(t.Context(), test.statement); err != nil {
				t.Fatal(err)
			}
			if _, err := clickhouse.Migrate(t.Context(), conn, nil); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Migrate returned %v, want %v with %s", err, test.want, test.text)
			}
		})
	}
}

func TestBadDSNKeepsItsPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", "http://user:hunter2@host:notaport/db", "nonsense://user:hunter2@host/db", "http://user:hunter2@host/db?dial_timeout=x"} {
		conn, err := clickhouse.Open(dsn)
		if err == nil {
			_ = conn.Close()
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error for %s repeats the password: %v", dsn, err)
		}
	}
}

// place is a database, for the contract suite.
type place struct {
	conn    driver.Conn
	stream  string
	cursors sinktest.Cursors
}

func (p *place) Open(t *testing.T) (sinks.Sink, func()) {
	t.Helper()
	return clickhouse.NewSink(clickhouse.Config{
		Source: &sinktest.Source{Stream: sinktest.NewStream(p.stream)}, Cursors: &p.cursors, Letters: &sinktest.Letters{}, Conn: p.conn,
		Options: &sinks.Options{Retry: fast},
	}), func() {}
}

func (p *place) Read(t *testing.T) (all []sinktest.Stored) {
	t.Helper()
	rows, err := p.conn.Query(context.Background(), "SELECT position, lower(hex(hash)) FROM events ORDER BY position")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s sinktest.Stored
		if err := rows.Scan(&s.Position, &s.Hash); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func TestContract(t *testing.T) {
	t.Parallel()
	sinktest.Suite(t, func(t *testing.T, stream string) sinktest.Place {
		t.Helper()
		return &place{conn: store(t), stream: stream}
	})
}
