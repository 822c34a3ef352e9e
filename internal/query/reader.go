package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Bounds of every question.
const (
	DefaultLimit = 50
	MaxLimit     = 10_000
	MaxText      = 1024 // bytes of a text to search for
	// DefaultMaxBody is how much of each body Show returns.
	DefaultMaxBody = 1 << 20

	maxSeconds = 60      // one statement
	maxIDs     = 100_000 // exchanges that a sub-select may name
	// longest is how much earlier than its outcome an exchange may have begun to be found by what its request holds.
	longest = 7 * 24 * time.Hour
)

var (
	// ErrNotFound is returned when nothing has the id; it may not be stored yet.
	ErrNotFound = errors.New("no exchange has this id")
	// ErrAmbiguous is returned when several exchanges begin with the prefix, with some of them: give more digits.
	ErrAmbiguous = errors.New("several exchanges begin with this id")
	// ErrFilter is returned when a filter or an id cannot be meant.
	ErrFilter = errors.New("bad filter")
)

// Reader asks a migrated database. It may be used by several goroutines at once.
type Reader struct{ conn driver.Conn }

// New returns a reader over a pool of connections, which stays the caller's.
func New(conn driver.Conn) *Reader { return &Reader{conn: conn} }

// query runs a statement with the limits of this package.
func (r *Reader) query(ctx context.Context, statement string, args ...any) (driver.Rows, error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"max_execution_time": maxSeconds, "max_query_size": 16 << 20,
	}))
	rows, err := r.conn.Query(ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("ask the store: %w", err)
	}
	return rows, nil
}

// each calls scan for each row and closes the rows.
func each(rows driver.Rows, scan func() error) error {
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	for rows.Next() {
		if err := scan(); err != nil {
			return fmt.Errorf("read the store's answer: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the store's answer: %w", err)
	}
	return nil
}

// where gathers conditions that are fixed texts, with their arguments.
type where struct {
	text []string
	args []any
}

func (w *where) add(condition string, args ...any) {
	w.text = append(w.text, condition)
	w.args = append(w.args, args...)
}

func (w *where) String() string {
	if len(w.text) == 0 {
		return "1"
	}
	return strings.Join(w.text, " AND ")
}
