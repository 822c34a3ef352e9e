package clickhouse

import (
	"time"
	"uuid"

	driveruuid "github.com/google/uuid" // the driver's UUID column takes no other type

	"github.com/chaintrail/chaintrail/schemas"
)

// column holds the values of one column of a block. The driver takes whole columns several times faster than rows.
type column interface {
	label() string
	slice(i, j int) any // a Go slice of a type that the driver's column takes
	size() int
}

type values[T any] struct {
	name string
	v    []T
}

func (c *values[T]) add(v T)            { c.v = append(c.v, v) }
func (c *values[T]) label() string      { return c.name }
func (c *values[T]) slice(i, j int) any { return c.v[i:j] }
func (c *values[T]) size() int          { return len(c.v) }

// block is what one insert into one table holds.
type block struct {
	table     string
	columns   []column
	positions []uint64 // of the message that each row comes from
	hint      int      // rows expected; sizes each column once
}

func (b *block) rows() int { return len(b.positions) }

// text, number, … make a column and add it to a block.

func col[T any](b *block, name string) *values[T] {
	c := &values[T]{name: name, v: make([]T, 0, b.hint)}
	b.columns = append(b.columns, c)
	return c
}

// ids is a UUID column.
type ids struct{ *values[driveruuid.UUID] }

func idColumn(b *block, name string) ids { return ids{col[driveruuid.UUID](b, name)} }

func (c ids) put(id uuid.UUID) { c.add(driveruuid.UUID(id)) }

// instants is a DateTime64(6) column.
type instants struct{ *values[time.Time] }

func timeColumn(b *block, name string) instants { return instants{col[time.Time](b, name)} }

// The store holds 1900 to 2299 in microseconds; other instants are drawn to its ends so that they stay recognizable.
func (c instants) put(t schemas.Time) {
	const first, last = -2208988800_000000, 10413791999_999999
	c.add(min(max(t, first), last).Std())
}

// counts is a UInt32 column; what does not fit is drawn to its ends.
type counts struct{ *values[uint32] }

func countColumn(b *block, name string) counts { return counts{col[uint32](b, name)} }

func (c counts) put(n int) { c.add(uint32(min(max(n, 0), 1<<32-1))) }
