package jsonx

import (
	"bytes"
	"encoding/json/jsontext"
	"iter"
)

// Member is one member of an object, as it stands in the text.
type Member struct {
	Name  []byte // without quotes, escapes resolved; may alias the text
	Value Value  // aliases the text
	Start int    // offset of the name's opening quote
	At    int    // offset of the value
}

// Members splits an object at its top level, in order, without decoding. v MUST be grammatical
// ([Verify]); for anything but an object it yields nothing, for ungrammatical text it yields
// anything but stays in bounds.
func Members(v Value) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		i := skipSpace(v, 0)
		if i >= len(v) || v[i] != '{' {
			return
		}
		for i = skipSpace(v, i+1); i < len(v) && v[i] == '"'; i = skipSpace(v, i+1) {
			start := i
			i = skipString(v, i)
			name := v[start:i]
			if i = skipSpace(v, i); i >= len(v) || v[i] != ':' {
				return
			}
			at := skipSpace(v, i+1)
			i = valueEnd(v, at)
			if !yield(Member{Name: unquoteName(name), Value: v[at:i:i], Start: start, At: at}) {
				return
			}
			if i = skipSpace(v, i); i >= len(v) || v[i] != ',' {
				return
			}
		}
	}
}

// Elements splits an array at its top level, in order, without decoding. The conditions of
// [Members] hold.
func Elements(v Value) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		i := skipSpace(v, 0)
		if i >= len(v) || v[i] != '[' {
			return
		}
		for i = skipSpace(v, i+1); i < len(v) && v[i] != ']'; i = skipSpace(v, i+1) {
			start := i
			i = valueEnd(v, i)
			if i == start || !yield(v[start:i:i]) {
				return
			}
			if i = skipSpace(v, i); i >= len(v) || v[i] != ',' {
				return
			}
		}
	}
}

// Lookup returns the first top-level member of that exact name. v MUST be grammatical.
func Lookup(v Value, name string) (Value, bool) {
	for m := range Members(v) {
		if string(m.Name) == name {
			return m.Value, true
		}
	}
	return nil, false
}

// StringOf decodes v if it is a string. Lone surrogates become U+FFFD.
func StringOf(v Value) (string, bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	out, err := jsontext.AppendUnquote(nil, v)
	if err != nil && out == nil {
		return "", false
	}
	return string(out), true
}

func unquoteName(quoted []byte) []byte {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	out, _ := jsontext.AppendUnquote(nil, quoted) // lone surrogates become U+FFFD
	return out
}

// valueEnd returns the offset after the value that begins at i, counting brackets.
func valueEnd(v []byte, i int) int {
	if i >= len(v) {
		return len(v)
	}
	switch v[i] {
	case '"':
		return skipString(v, i)
	case '{', '[':
		depth := 0
		for i < len(v) {
			switch v[i] {
			case '"':
				i = skipString(v, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(v)
	}
	for i < len(v) && !isSpace(v[i]) && v[i] != ',' && v[i] != ']' && v[i] != '}' {
		i++
	}
	return i
}

// skipString returns the offset behind the string that opens at start, or the end of the text. A quote
// is escaped when an odd number of backslashes stands before it.
func skipString(v []byte, start int) int {
	for i := start + 1; i < len(v); {
		q := bytes.IndexByte(v[i:], '"')
		if q < 0 {
			break
		}
		i += q + 1
		slashes := 0
		for at := i - 2; at > start && v[at] == '\\'; at-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return len(v)
}

func skipSpace(v []byte, i int) int {
	for i < len(v) && isSpace(v[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// AppendQuote appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, with an error.
func AppendQuote(dst []byte, s string) ([]byte, error) { return jsontext.AppendQuote(dst, s) }
