package schemas

import (
	"encoding/hex"
	"strconv"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// decoder is the counterpart of encoder: it takes members in the order in which they are written, each at most once.
// Whatever it does not expect makes it bad, and the caller then asks the strict decoder, which alone refuses.
type decoder struct {
	s   string
	i   int // of the next byte
	bad bool
}

func openDecoder(text string) *decoder {
	return &decoder{s: text, i: 1, bad: text == "" || text[0] != '{'}
}

// done reports whether the whole text was understood.
func (d *decoder) done() bool { return !d.bad && d.i == len(d.s) }

// next returns the byte at hand, 0 at the end.
func (d *decoder) next() byte {
	if d.i >= len(d.s) {
		return 0
	}
	return d.s[d.i]
}

// key takes the name of a member, if that is what comes.
func (d *decoder) key(name string) bool {
	i := d.i
	if d.bad || i >= len(d.s) {
		return false
	}
	if d.s[i-1] != '{' {
		if d.s[i] != ',' {
			return false
		}
		i++
	}
	end := i + len(name) + 3
	if end > len(d.s) || d.s[i] != '"' || d.s[i+1:end-2] != name || d.s[end-2:end] != `":` {
		return false
	}
	d.i = end
	return true
}

// take takes one byte that has to come.
func (d *decoder) take(c byte) {
	if d.next() != c {
		d.bad = true
		return
	}
	d.i++
}

func (d *decoder) open(name string) bool {
	if !d.key(name) {
		return false
	}
	d.take('{')
	return !d.bad
}

func (d *decoder) close() { d.take('}') }

// list begins a list and, when its elements begin with a brace, its first element.
func (d *decoder) list(name string, begin byte) (more bool) {
	if !d.key(name) {
		return false
	}
	d.take('[')
	return d.begin(begin)
}

// element goes on to the next element of a list, or to the list's end.
func (d *decoder) element(begin byte) (more bool) {
	if d.next() == ']' {
		d.i++
		return false
	}
	d.take(',')
	return d.begin(begin)
}

func (d *decoder) begin(c byte) bool {
	if c == '{' {
		d.take(c)
	}
	return !d.bad
}

// quoted takes a string that stands for itself: ASCII without escapes.
func (d *decoder) quoted() string {
	d.take('"')
	begin := d.i
	for ; d.i < len(d.s); d.i++ {
		switch c := d.s[d.i]; {
		case c == '"':
			d.i++
			return d.s[begin : d.i-1]
		case c < ' ' || c == '\\' || c >= 0x80:
			d.bad = true
			return ""
		}
	}
	d.bad = true
	return ""
}

func (d *decoder) str(name string, to *string) {
	if d.key(name) {
		*to = d.quoted()
	}
}

func (d *decoder) id(name string, to *uuid.UUID) {
	if d.key(name) {
		v, err := uuid.Parse(d.quoted())
		*to, d.bad = v, d.bad || err != nil
	}
}

func (d *decoder) hash(name string, to *seal.Hash) {
	if d.key(name) {
		s := d.quoted()
		if d.bad = d.bad || len(s) != hex.EncodedLen(len(to)); !d.bad {
			_, err := hex.Decode(to[:], []byte(s))
			d.bad = err != nil
		}
	}
}

func (d *decoder) time(name string, to *Time) {
	if d.key(name) {
		v, err := parseTime(d.quoted())
		*to, d.bad = v, d.bad || err != nil
	}
}

func (d *decoder) salt(name string, to *seal.Salt) {
	if d.key(name) {
		s := d.quoted()
		d.bad = d.bad || to.UnmarshalText([]byte(s)) != nil
	}
}

// number takes an integer in its shortest form.
func (d *decoder) number() string {
	begin := d.i
	if d.next() == '-' {
		d.i++
	}
	digits := d.i
	for c := d.next(); c >= '0' && c <= '9'; c = d.next() {
		d.i++
	}
	if n := d.i - digits; n == 0 || d.s[digits] == '0' && (n > 1 || digits > begin) {
		d.bad = true
		return ""
	}
	return d.s[begin:d.i]
}

func (d *decoder) uint(name string, to *uint64) {
	if !d.key(name) {
		return
	}
	n, err := strconv.ParseUint(d.number(), 10, 64)
	if err != nil {
		d.bad = true
		return
	}
	*to = n
}

func decodeInt[T int | int32 | int64](d *decoder, name string, to *T) {
	if !d.key(name) {
		return
	}
	n, err := strconv.ParseInt(d.number(), 10, 64)
	if *to = T(n); err != nil || int64(*to) != n {
		d.bad = true
	}
}

func (d *decoder) bool(name string, to *bool) {
	if !d.key(name) {
		return
	}
	switch rest := d.s[d.i:]; {
	case len(rest) >= 4 && rest[:4] == "true":
		*to = true
		d.i += 4
	case len(rest) >= 5 && rest[:5] == "false":
		*to = false
		d.i += 5
	default:
		d.bad = true
	}
}

func (d *decoder) maybe(name string, to **bool) {
	before := d.i
	var v bool
	d.bool(name, &v)
	if d.i != before && !d.bad {
		*to = &v
	}
}

// raw takes a string or an integer as it stands.
func (d *decoder) raw(name string, to *jsonx.Value) {
	if !d.key(name) {
		return
	}
	begin := d.i
	if d.next() == '"' {
		d.quoted()
	} else {
		d.number()
	}
	if !d.bad {
		*to = jsonx.Value(d.s[begin:d.i])
	}
}
