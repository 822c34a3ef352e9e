package clickhouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/chaintrail/chaintrail/internal/retry"
	shipped "github.com/chaintrail/chaintrail/schemas/clickhouse"
)

// MigrateOptions of [Migrate].
type MigrateOptions struct {
	Engine string // table engine of new tables; "" means MergeTree
}

// Applied is one migration as the database records it.
type Applied struct {
	Version  uint32
	Name     string
	Checksum string
	Applied  time.Time
}

// Migrate brings the database up to the shipped schema and returns what it applied; nothing when all was there. It
// refuses a server that is too old ([ErrTooOld]) and a database whose records differ from what is shipped
// ([ErrMigrationChanged], [ErrNewerSchema]), all three marked permanent for internal/retry. It may be repeated, and run by several processes at once: every
// statement does nothing when its object is there. opts may be nil.
func Migrate(ctx context.Context, conn driver.Conn, opts *MigrateOptions) ([]Applied, error) {
	if opts == nil {
		opts = &MigrateOptions{}
	}
	if err := CheckVersion(conn); err != nil {
		return nil, err
	}
	all, err := shipped.Migrations()
	if err != nil {
		return nil, err
	}
	// The first one makes the table of records itself.
	if err := conn.Exec(ctx, all[0].Statement(opts.Engine)); err != nil {
		return nil, fmt.Errorf("apply %s: %w", all[0].Name, err)
	}
	have, err := Recorded(ctx, conn)
	if err != nil {
		return nil, err
	}
	for version, a := range have {
		if int(version) > len(all) || version == 0 {
			return nil, retry.Permanent(fmt.Errorf("%w: it has %s, known here are %d migrations", ErrNewerSchema, a.Name, len(all)))
		}
		if m := all[version-1]; m.Checksum != a.Checksum {
			return nil, retry.Permanent(fmt.Errorf("%w: %s has checksum %s in the database, %s here",
				ErrMigrationChanged, m.Name, a.Checksum, m.Checksum))
		}
	}
	var done []Applied
	for _, m := range all {
		if _, ok := have[m.Version]; ok {
			continue
		}
		if err := conn.Exec(ctx, m.Statement(opts.Engine)); err != nil {
			return done, fmt.Errorf("apply %s: %w", m.Name, err)
		}
		a := Applied{Version: m.Version, Name: m.Name, Checksum: m.Checksum, Applied: time.Now().UTC()}
		if err := record(ctx, conn, a); err != nil {
			return done, err
		}
		done = append(done, a)
	}
	return done, nil
}

// Recorded returns what the database says was applied, by version.
func Recorded(ctx context.Context, conn driver.Conn) (map[uint32]Applied, error) {
	rows, err := conn.Query(ctx, "SELECT version, name, toString(checksum), applied FROM schema_migrations ORDER BY version LIMIT 10000")
	if err != nil {
		return nil, fmt.Errorf("read schema_migrations: %w", err)
	}
	have := map[uint32]Applied{}
	err = each(rows, func() error {
		var a Applied
		if err := rows.Scan(&a.Version, &a.Name, &a.Checksum, &a.Applied); err != nil {
			return err
		}
		have[a.Version] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read schema_migrations: %w", err)
	}
	return have, nil
}

func record(ctx context.Context, conn driver.Conn, a Applied) error {
	err := insertOnce(ctx, conn, "INSERT INTO schema_migrations (version, name, checksum, applied)",
		func(b driver.Batch) error { return b.Append(a.Version, a.Name, a.Checksum, a.Applied) })
	if err != nil {
		return fmt.Errorf("record %s: %w", a.Name, err)
	}
	return nil
}

// insertOnce sends one block.
func insertOnce(ctx context.Context, conn driver.Conn, query string, fill func(driver.Batch) error) error {
	batch, err := conn.PrepareBatch(ctx, query)
	if err != nil {
		return err
	}
	defer batch.Close() //nolint:errcheck // nothing is pending after Send, and before it the block is dropped
	if err := fill(batch); err != nil {
		return err
	}
	return batch.Send()
}
