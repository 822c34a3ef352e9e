package chain

import (
	"encoding/json/jsontext"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// checkJSON refuses what may not be taken for an answer: invalid JSON, a duplicate name at any level, raw invalid
// UTF-8. Escaped lone surrogates are legal.
func checkJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errInvalidUTF8
	}
	if !jsonx.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return errInvalidJSON
	}
	return nil
}

// members goes through the top level of an object that [checkJSON] accepted. The yielded values are parts of object,
// not copies; names without an escape are too.
func members(object []byte) iter.Seq2[[]byte, jsonx.Value] {
	return func(yield func([]byte, jsonx.Value) bool) {
		i := skipSpace(object, 0)
		if i >= len(object) || object[i] != '{' {
			return
		}
		i = skipSpace(object, i+1)
		for i < len(object) && object[i] == '"' {
			end := skipString(object, i)
			name := unquote(object[i:end])
			i = skipSpace(object, skipSpace(object, end)+1) // over the colon
			end = skipValue(object, i)
			if !yield(name, jsonx.Value(object[i:end])) {
				return
			}
			i = skipSpace(object, end)
			if i >= len(object) || object[i] != ',' {
				return
			}
			i = skipSpace(object, i+1)
		}
	}
}

// elements goes through the top level of an array that [checkJSON] accepted.
func elements(array []byte) iter.Seq[jsonx.Value] {
	return func(yield func(jsonx.Value) bool) {
		i := skipSpace(array, 0)
		if i >= len(array) || array[i] != '[' {
			return
		}
		i = skipSpace(array, i+1)
		for i < len(array) && array[i] != ']' {
			end := skipValue(array, i)
			if !yield(jsonx.Value(array[i:end])) {
				return
			}
			i = skipSpace(array, end)
			if i < len(array) && array[i] == ',' {
				i = skipSpace(array, i+1)
			}
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index behind the value that begins at i. It counts brackets instead of recursing.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth < 0 {
					return i // the end of what surrounds a bare literal
				}
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}

// unquote returns the value of a JSON string, without a copy where nothing is escaped.
func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c == '\\' {
			text, _ := jsontext.AppendUnquote(nil, quoted) // a lone surrogate becomes U+FFFD: it never equals a known name
			return text
		}
	}
	return inner
}

// kindOf returns the kind of a value: '{', '[', '"', '0', 't', 'f', 'n'; 0 when there is none.
func kindOf(v jsonx.Value) jsontext.Kind {
	i := skipSpace(v, 0)
	if i >= len(v) {
		return 0
	}
	switch c := v[i]; {
	case c == '-' || (c >= '0' && c <= '9'):
		return '0'
	default:
		return jsontext.Kind(c)
	}
}

// stringOf returns the text of a JSON string.
func stringOf(v jsonx.Value) (string, error) {
	if kindOf(v) != '"' {
		return "", fmt.Errorf("%w: want a string", errWrongType)
	}
	v = trim(v)
	return string(unquote(v)), nil
}

// boolOf returns the value of a JSON boolean.
func boolOf(v jsonx.Value) (bool, error) {
	switch kindOf(v) {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	default:
		return false, fmt.Errorf("%w: want true or false", errWrongType)
	}
}

func trim(v jsonx.Value) jsonx.Value {
	i := skipSpace(v, 0)
	return v[i:skipValue(v, i)]
}

// isNull reports whether a member is absent or null: servers written in Go send null for an empty list.
func isNull(v jsonx.Value) bool { k := kindOf(v); return k == 0 || k == 'n' }
