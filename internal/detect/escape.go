package detect

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// unescape appends what the body of a JSON string means. It is lenient: what is no valid escape
// stands for itself, and a lone surrogate for three bytes that are no text.
func unescape(dst, raw []byte) []byte {
	dst = slices.Grow(dst, len(raw)) // what it means is never longer
	for {
		plain := bytes.IndexByte(raw, '\\')
		if plain < 0 {
			return append(dst, raw...)
		}
		size, r := escapeAt(raw[plain:])
		dst = appendRune(append(dst, raw[:plain]...), r)
		raw = raw[plain+size:]
	}
}

// escapeAt returns the size of the escape that b begins with and what it means.
func escapeAt(b []byte) (size int, r rune) {
	if len(b) < 2 {
		return 1, '\\'
	}
	switch b[1] {
	case '"', '\\', '/':
		return 2, rune(b[1])
	case 'b':
		return 2, '\b'
	case 'f':
		return 2, '\f'
	case 'n':
		return 2, '\n'
	case 'r':
		return 2, '\r'
	case 't':
		return 2, '\t'
	case 'u':
		hi, ok := hex4(b[2:])
		if !ok {
			return 1, '\\'
		}
		if hi >= 0xD800 && hi < 0xDC00 && has(b, 6, `\u`) {
			if lo, ok := hex4(b[8:]); ok && lo >= 0xDC00 && lo < 0xE000 {
				return 12, (hi-0xD800)<<10 + (lo - 0xDC00) + 0x10000
			}
		}
		return 6, hi
	}
	return 1, '\\'
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 + rune(c)
	}
	return r, true
}

func appendRune(dst []byte, r rune) []byte {
	if r >= 0xD800 && r < 0xE000 {
		return append(dst, 0xFF, 0xFF, 0xFF)
	}
	return utf8.AppendRune(dst, r)
}

// rawHits turns hits in the meaning of raw into hits in raw itself, moved by base. An escape that is
// touched by a hit belongs to it as a whole.
func rawHits(hits []hit, raw []byte, base int) {
	var scratch [utf8.UTFMax]byte
	i, d, k, inside := 0, 0, 0, false
	for k < len(hits) {
		size, n := 0, 0
		if i < len(raw) {
			size, n = 1, 1
			if raw[i] == '\\' {
				var r rune
				size, r = escapeAt(raw[i:])
				n = len(appendRune(scratch[:0], r))
			}
		}
		if !inside && hits[k].start < d+n {
			hits[k].start, inside = base+i, true
		}
		for inside && hits[k].end <= d+n {
			hits[k].end = base + i + size
			k, inside = k+1, false
			if k < len(hits) && hits[k].start < d+n {
				hits[k].start, inside = base+i, true
			}
		}
		if size == 0 {
			break
		}
		i, d = i+size, d+n
	}
}
