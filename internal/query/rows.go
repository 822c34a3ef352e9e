package query

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"uuid"

	"github.com/ClickHouse/clickhouse-go/v2"
	driveruuid "github.com/google/uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// rowsSeconds bounds one statement of [Rows]: a stretch of a large table is read at the caller's pace.
const rowsSeconds = 3600

// Rows reads rows of a table into a struct whose fields, those of embedded structs too, name their columns with the tag `ch`.
// rest is a fixed text that follows the table: conditions, order, limit. A row is valid until the next one. Fields may be
// string, []byte, bool, numbers, uuid.UUID, schemas.Time (of a DateTime64), arrays of bytes (of a FixedString) and int8 (of a
// Nullable(Bool): -1 is NULL).
func Rows[T any](ctx context.Context, r *Reader, table, rest string, args ...any) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		var row T
		var names []string
		var into []any
		fields(reflect.ValueOf(&row).Elem(), func(name string, field any) {
			column, dest := scanned(name, field)
			names, into = append(names, column), append(into, dest)
		})
		bounded := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
			"max_execution_time": rowsSeconds, "max_query_size": 16 << 20,
		}))
		rows, err := r.conn.Query(bounded, "SELECT "+strings.Join(names, ", ")+" FROM "+table+" "+rest, args...)
		if err != nil {
			yield(nil, fmt.Errorf("ask the store: %w", err))
			return
		}
		defer rows.Close() //nolint:errcheck // Err says what went wrong
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				yield(nil, fmt.Errorf("read the store's answer: %w", err))
				return
			}
			if !yield(&row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fmt.Errorf("read the store's answer: %w", err))
		}
	}
}

// fields calls use for each tagged field, with a pointer to it.
func fields(v reflect.Value, use func(name string, field any)) {
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			fields(v.Field(i), use)
			continue
		}
		if name := v.Type().Field(i).Tag.Get("ch"); name != "" {
			use(name, v.Field(i).Addr().Interface())
		}
	}
}

// scanned is how a column is asked for, and where the driver puts it.
func scanned(name string, field any) (column string, dest any) {
	switch f := field.(type) {
	case *uuid.UUID:
		return name, (*driveruuid.UUID)(f)
	case *schemas.Time:
		return "toUnixTimestamp64Micro(" + name + ")", (*int64)(f)
	}
	switch v := reflect.ValueOf(field); v.Elem().Kind() {
	case reflect.Array:
		return name, fixed(v.Elem().Slice(0, v.Elem().Len()).Bytes())
	case reflect.Int8:
		return "ifNull(toInt8(" + name + "), toInt8(-1))", v.Convert(reflect.TypeFor[*int8]()).Interface()
	default:
		return name, field
	}
}

// fixed takes a FixedString of its size.
type fixed []byte

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (f fixed) UnmarshalBinary(data []byte) error {
	if len(data) != len(f) {
		return fmt.Errorf("a column of %d bytes, want %d", len(data), len(f))
	}
	copy(f, data)
	return nil
}
