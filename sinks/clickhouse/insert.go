package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
	"uuid"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/sinks"
)

// tryLimit ends one try of an insert; its outcome is then unknown and it is repeated.
const tryLimit = 2 * time.Minute

// inserter sends blocks. Not for concurrent use.
type inserter struct {
	conn   driver.Conn
	policy retry.Policy
	log    *slog.Logger
	blocks bool // the connection takes blocks of the driver only: it speaks the native protocol
	// owned returns ErrConflict when another writer took over. A writer that slept for long must not repeat an insert
	// whose token the server may have forgotten.
	owned func(ctx context.Context) error
	// refused dead-letters the message of a row that the server will never accept.
	refused func(ctx context.Context, table string, position uint64, err error) error
	stream  string
	// again is set while a range is repeated that another start of the writer may have stored.
	again bool
	// untokened is set by sabotage only.
	untokened bool
}

// insert stores a block exactly once. It returns only when the block is stored, its bad rows are dead-lettered, ctx
// ended, or another writer took over.
func (in *inserter) insert(ctx context.Context, b *block, token string) error {
	if b.rows() == 0 {
		return nil
	}
	return in.span(ctx, b, 0, b.rows(), token)
}

// span stores the rows from i up to j as one block.
//
// The server notes a token before it adds the part. Killed in between, it takes the repetition for a duplicate, although
// nothing is stored: after a repetition the rows are counted, and sent under a fresh token when there are none.
func (in *inserter) span(ctx context.Context, b *block, i, j int, token string) error {
	first, fresh := !in.again, 0
	err := retry.Do(ctx, in.policy, func(ctx context.Context) error {
		repeated := !first
		if repeated {
			if err := in.owned(ctx); errors.Is(err, sinks.ErrConflict) {
				return retry.Permanent(err)
			}
		}
		first = false
		for {
			name := token
			if fresh > 0 {
				name += ":again" + strconv.Itoa(fresh)
			}
			err := in.send(ctx, b, i, j, name)
			if isDataError(err) {
				return retry.Permanent(err)
			}
			if err != nil || !repeated || in.untokened {
				return err
			}
			stored, err := in.stored(ctx, b, i, j)
			if err != nil || stored {
				return err
			}
			in.log.WarnContext(ctx, "the store knows a block that it does not hold; storing it again",
				slog.String("table", b.table), slog.Uint64("position", b.positions[i]))
			fresh++
		}
	})
	switch {
	case err == nil:
		return nil
	case !isDataError(err):
		return fmt.Errorf("insert into %s: %w", b.table, err)
	case j-i == 1:
		in.log.ErrorContext(ctx, "the store refuses a row", slog.String("table", b.table), slog.Uint64("position", b.positions[i]))
		return in.refused(ctx, b.table, b.positions[i], err)
	}
	// Nothing of this block was stored. A repetition after a crash meets the same error and makes the same halves.
	middle := i + (j-i)/2
	if err := in.span(ctx, b, i, middle, token+":"+strconv.Itoa(i)); err != nil {
		return err
	}
	return in.span(ctx, b, middle, j, token+":"+strconv.Itoa(middle))
}

// stored reports whether the rows from i up to j are there. A block is stored whole or not at all.
func (in *inserter) stored(ctx context.Context, b *block, i, j int) (bool, error) {
	var rows uint64
	err := in.conn.QueryRow(ctx, "SELECT count() FROM "+b.table+" WHERE stream = ? AND position BETWEEN ? AND ?",
		in.stream, b.positions[i], b.positions[j-1]).Scan(&rows)
	if err != nil {
		return false, fmt.Errorf("count what is stored in %s: %w", b.table, err)
	}
	return rows >= uint64(j-i), nil //nolint:gosec // not negative
}

// send is one try. Over HTTP the rows are encoded here, from what the columns hold into the request: through the driver's
// own columns they are copied three times more, and words are looked up one by one.
func (in *inserter) send(ctx context.Context, b *block, i, j int, token string) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	settings := clickhouse.Settings{
		"async_insert":               0,
		"insert_deduplicate":         1,
		"insert_deduplication_token": token,
		// Skip indexes and statistics are made when parts are merged. To make them at once costs as much again as the
		// insert itself, and a part that was not merged yet is small enough to be read without.
		"materialize_skip_indexes_on_insert": 0,
		"materialize_statistics_on_insert":   0,
	}
	if in.untokened {
		settings["insert_deduplication_token"] = uuid.NewV4().String()
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings))
	if !in.blocks {
		err := in.conn.InsertFormat(ctx, "Native", b.query(), b.native(i, j))
		if !errors.Is(err, clickhouse.ErrFormatNativeUnsupported) {
			return err
		}
		in.blocks = true
	}
	return insertOnce(ctx, in.conn, b.query(), func(batch driver.Batch) error {
		for n, c := range b.columns {
			if err := batch.Column(n).Append(c.slice(i, j)); err != nil {
				return fmt.Errorf("column %s.%s does not fit: %w", b.table, c.label(), err)
			}
		}
		return nil
	})
}
