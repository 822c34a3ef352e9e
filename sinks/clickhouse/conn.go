package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"

	"github.com/chaintrail/chaintrail/internal/retry"
)

// MinVersion is the oldest server that is accepted: 24.8, the oldest long-term release on which insert deduplication
// tokens of plain and replicated tables behave as the writer needs it.
const MinVersion = "24.8"

const minMajor, minMinor = 24, 8

const connectionsPerPool = 8

// Open returns a pool of connections for a DSN such as clickhouse://user:password@host:9000/database or
// http://user:password@host:8123/database. It does not connect yet; the caller closes the pool.
func Open(dsn string) (driver.Conn, error) {
	opts, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		// The error of the parser may repeat the DSN with its password.
		return nil, errors.New("the ClickHouse DSN must look like clickhouse://user:password@host:9000/database or " +
			"http://user:password@host:8123/database")
	}
	if opts.Settings == nil {
		opts.Settings = clickhouse.Settings{}
	}
	opts.Settings["async_insert"] = 0 // on by default in new servers; deduplicates by other rules
	opts.MaxOpenConns = connectionsPerPool
	opts.MaxIdleConns = connectionsPerPool
	if opts.ReadTimeout == 0 || opts.ReadTimeout < time.Minute {
		opts.ReadTimeout = 5 * time.Minute
	}
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", err)
	}
	return conn, nil
}

// CheckVersion returns [ErrTooOld], with both versions, when the server cannot be used.
func CheckVersion(conn driver.Conn) error {
	server, err := conn.ServerVersion()
	switch {
	case err != nil && strings.Contains(err.Error(), "Unknown setting async_insert"): // came with 21.11; said over HTTP before the version
		return retry.Permanent(fmt.Errorf("%w: it does not know the setting async_insert, needed is %s or newer", ErrTooOld, MinVersion))
	case err != nil:
		return fmt.Errorf("ask ClickHouse for its version: %w", err)
	}
	return accepted(server.Version)
}

func accepted(v proto.Version) error {
	if v.Major < minMajor || v.Major == minMajor && v.Minor < minMinor {
		return retry.Permanent(fmt.Errorf("%w: it has version %d.%d.%d, needed is %s or newer",
			ErrTooOld, v.Major, v.Minor, v.Patch, MinVersion))
	}
	return nil
}

// each calls scan for each row and closes the rows.
func each(rows driver.Rows, scan func() error) error {
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	return rows.Err()
}
