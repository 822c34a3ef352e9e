package clickhouse

import (
	"encoding/binary"
	"math"
	"time"
	"uuid"

	driveruuid "github.com/google/uuid" // the driver's UUID column takes no other type

	"github.com/chaintrail/chaintrail/schemas"
)

// column holds the values of one column of a block.
type column interface {
	label() string
	wire() string // its type in the Native format; the server converts where the table has another one
	size() int
	// encode appends values from i up to j as the Native format has them, and returns where to go on: a part is enough
	// once there is a piece of data. A whole column begins with state.
	encode(dst []byte, i, j int) (out []byte, next int)
	state() []byte
	slice(i, j int) any // a Go slice of a type that the driver's column takes
}

// piece is about how much of a block is encoded at once.
const piece = 256 << 10

// values is a column whose form is that of its values, one after the other.
type values[T any] struct {
	name string
	typ  string
	v    []T
	form func(dst []byte, v T) []byte
}

func (c *values[T]) add(v T)            { c.v = append(c.v, v) }
func (c *values[T]) label() string      { return c.name }
func (c *values[T]) wire() string       { return c.typ }
func (c *values[T]) state() []byte      { return nil }
func (c *values[T]) size() int          { return len(c.v) }
func (c *values[T]) slice(i, j int) any { return c.v[i:j] }

func (c *values[T]) encode(dst []byte, i, j int) (out []byte, next int) {
	for ; i < j && len(dst) < piece; i++ {
		dst = c.form(dst, c.v[i])
	}
	return dst, i
}

func newValues[T any](b *block, name, typ string, form func([]byte, T) []byte) *values[T] {
	c := &values[T]{name: name, typ: typ, form: form, v: make([]T, 0, b.hint)}
	b.columns = append(b.columns, c)
	return c
}

// texts is a String column of values that differ from row to row, blobs one of bytes; hashes is FixedString(32).
type (
	texts  = *values[string]
	blobs  = *values[[]byte]
	hashes = *values[[]byte]
)

func textColumn(b *block, name string) texts { return newValues(b, name, "String", appendText[string]) }

func blobColumn(b *block, name string) blobs { return newValues(b, name, "String", appendText[[]byte]) }

func hashColumn(b *block, name string) hashes {
	return newValues(b, name, "FixedString(32)", func(dst, v []byte) []byte { return append(dst, v...) })
}

func appendText[T string | []byte](dst []byte, v T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// numbers, signed, small and flags are columns of numbers.
type (
	numbers = *values[uint64]
	signed  = *values[int64]
	flags   = *values[bool]
)

func numberColumn(b *block, name string) numbers {
	return newValues(b, name, "UInt64", binary.LittleEndian.AppendUint64)
}

func signedColumn(b *block, name string) signed {
	return newValues(b, name, "Int64", func(dst []byte, v int64) []byte {
		return binary.LittleEndian.AppendUint64(dst, uint64(v)) //nolint:gosec // two's complement is the form
	})
}

func shardColumn(b *block, name string) *values[uint16] {
	return newValues(b, name, "UInt16", binary.LittleEndian.AppendUint16)
}

func priorityColumn(b *block, name string) *values[int32] {
	return newValues(b, name, "Int32", func(dst []byte, v int32) []byte {
		return binary.LittleEndian.AppendUint32(dst, uint32(v)) //nolint:gosec // two's complement is the form
	})
}

func flagColumn(b *block, name string) flags { return newValues(b, name, "Bool", appendFlag) }

func appendFlag(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// counts is a UInt32 column; what does not fit is drawn to its ends.
type counts struct{ *values[uint32] }

func countColumn(b *block, name string) counts {
	return counts{newValues(b, name, "UInt32", binary.LittleEndian.AppendUint32)}
}

func (c counts) put(n int) { c.add(uint32(min(max(n, 0), math.MaxUint32))) }

// ids is a UUID column. On the wire each half is a number of its own.
type ids struct{ *values[driveruuid.UUID] }

func idColumn(b *block, name string) ids {
	return ids{newValues(b, name, "UUID", func(dst []byte, v driveruuid.UUID) []byte {
		dst = binary.LittleEndian.AppendUint64(dst, binary.BigEndian.Uint64(v[:8]))
		return binary.LittleEndian.AppendUint64(dst, binary.BigEndian.Uint64(v[8:]))
	})}
}

func (c ids) put(id uuid.UUID) { c.add(driveruuid.UUID(id)) }

// instants is a DateTime64(6) column, in microseconds.
type instants struct{ signed }

func timeColumn(b *block, name string) instants {
	c := instants{signedColumn(b, name)}
	c.typ = "DateTime64(6, 'UTC')"
	b.columns[len(b.columns)-1] = c
	return c
}

// slice gives the driver what it does not take for milliseconds.
func (c instants) slice(i, j int) any {
	out := make([]time.Time, 0, j-i)
	for _, t := range c.v[i:j] {
		out = append(out, schemas.Time(t).Std())
	}
	return out
}

// The store holds 1900 to 2299; other instants are drawn to its ends so that they stay recognizable.
func (c instants) put(t schemas.Time) {
	const first, last = -2208988800_000000, 10413791999_999999
	c.add(int64(min(max(t, first), last)))
}

// maybes is a Nullable(Bool) column.
type maybes struct{ *values[*bool] }

func maybeColumn(b *block, name string) maybes {
	c := maybes{newValues[*bool](b, name, "Nullable(Bool)", nil)}
	b.columns[len(b.columns)-1] = c
	return c
}

// encode writes which values are there, then the values.
func (c maybes) encode(dst []byte, i, j int) (out []byte, next int) {
	for _, v := range c.v[i:j] {
		dst = appendFlag(dst, v == nil)
	}
	for _, v := range c.v[i:j] {
		dst = appendFlag(dst, v != nil && *v)
	}
	return dst, j
}
