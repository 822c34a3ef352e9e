package clickhouse

import (
	"encoding/binary"
	"math"
)

// names is a LowCardinality(String) column of words that occur again and again: each is held once, rows by number.
type names struct {
	name  string
	words []string // the first one is empty: the value of a row without
	index map[string]uint32
	last  uint32 // that the last row has; the next one mostly has it too
	keys  []uint32
}

func nameColumn(b *block, name string) *names {
	c := &names{name: name, words: []string{""}, index: map[string]uint32{"": 0}, keys: make([]uint32, 0, b.hint)}
	b.columns = append(b.columns, c)
	return c
}

func (c *names) add(word string) {
	if c.words[c.last] != word {
		key, ok := c.index[word]
		if !ok {
			key = uint32(len(c.words)) //nolint:gosec // a batch has far fewer rows
			c.words = append(c.words, word)
			c.index[word] = key
		}
		c.last = key
	}
	c.keys = append(c.keys, c.last)
}

func (c *names) label() string { return c.name }
func (c *names) wire() string  { return "LowCardinality(String)" }
func (c *names) size() int     { return len(c.keys) }

// state is the version of the form: dictionaries with additional keys.
func (c *names) state() []byte { return binary.LittleEndian.AppendUint64(nil, 1) }

func (c *names) slice(i, j int) any {
	out := make([]string, 0, j-i)
	for _, key := range c.keys[i:j] {
		out = append(out, c.words[key])
	}
	return out
}

// encode writes kind of keys and flags, the words, and a key for each row.
func (c *names) encode(dst []byte, i, j int) (out []byte, next int) {
	const ownWords, newWords = 1 << 9, 1 << 10
	kind, put := uint64(2), binary.LittleEndian.AppendUint32
	switch n := len(c.words); {
	case n <= math.MaxUint8:
		kind, put = 0, func(dst []byte, key uint32) []byte { return append(dst, byte(key)) } //nolint:gosec // below n
	case n <= math.MaxUint16:
		kind, put = 1, func(dst []byte, key uint32) []byte {
			return binary.LittleEndian.AppendUint16(dst, uint16(key)) //nolint:gosec // below n
		}
	}
	dst = binary.LittleEndian.AppendUint64(dst, kind|ownWords|newWords)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(c.words)))
	for _, word := range c.words {
		dst = appendText(dst, word)
	}
	rows := c.keys[i:j]
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(rows)))
	for _, key := range rows {
		dst = put(dst, key)
	}
	return dst, j
}
