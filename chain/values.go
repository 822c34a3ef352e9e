package chain

import (
	"strconv"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// isNull reports whether a member is absent or null: servers written in Go send null for an empty list.
func isNull(v jsonx.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

// boolOf returns the value of a boolean; ok is false for anything else.
func boolOf(v jsonx.Value) (value, ok bool) {
	switch v.Kind() {
	case 't':
		return true, true
	case 'f':
		return false, true
	default:
		return false, false
	}
}

// appendString quotes s. What is not UTF-8 becomes U+FFFD: such text cannot be sent.
func appendString(b []byte, s string) []byte {
	b, _ = jsonx.AppendQuote(b, s)
	return b
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
