package jsonx

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// hardMaxDepth is the nesting beyond which jsontext itself refuses.
const hardMaxDepth = 10_000

// ErrTooDeep is returned when a text nests deeper than its bound; refuse the message.
var ErrTooDeep = errors.New("nesting too deep")

// Traits are what a grammatical JSON text can still have that parsers judge differently.
type Traits struct {
	LoneSurrogates bool // an escaped half of a surrogate pair, such as "\ud83d"
	InvalidUTF8    bool // bytes that are not UTF-8 inside a string
	Duplicates     bool // an object with two members of one name, at any level
}

// Verify checks the grammar of one JSON text that came from outside, and its nesting, without
// recursion deeper than maxDepth (0 means [DefaultMaxDepth]; at most 10,000). It reports what a
// caller may want to refuse besides as Traits. The error tells where ([PositionOf] reads it).
func Verify(data []byte, maxDepth int) (Traits, error) {
	if maxDepth <= 0 {
		maxDepth = DefaultMaxDepth
	}
	maxDepth = min(maxDepth, hardMaxDepth)
	// The depth is judged before the grammar, because jsontext recurses over nested values.
	depthAt, lone := scanDepth(data, maxDepth)
	if depthAt >= 0 {
		return Traits{}, &jsontext.SyntacticError{
			ByteOffset: int64(depthAt),
			Err:        fmt.Errorf("%w: more than %d levels", ErrTooDeep, maxDepth),
		}
	}
	traits := Traits{LoneSurrogates: lone, InvalidUTF8: !utf8.Valid(data)}
	// UTF-8 was judged above, and escaped lone surrogates are only flagged.
	if jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return traits, nil
	}
	if jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) {
		traits.Duplicates = true
		return traits, nil
	}
	return traits, syntaxError(data)
}

// DuplicateAt finds the first repeated name of a text for which Verify reported Duplicates.
func DuplicateAt(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true))
	_, err := dec.ReadValue()
	return err
}

func syntaxError(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadValue(); err != nil {
		if errors.Is(err, io.EOF) {
			return &jsontext.SyntacticError{ByteOffset: int64(len(data)), Err: errors.New("no JSON value")}
		}
		return err
	}
	return &jsontext.SyntacticError{ByteOffset: dec.InputOffset(), Err: errors.New("text after the JSON value")}
}

// scanDepth returns the offset of the bracket that exceeds maxDepth, or -1, and whether an escaped
// lone surrogate occurs. It is right for grammatical text; for other text it only stays in bounds.
func scanDepth(data []byte, maxDepth int) (exceededAt int, lone bool) {
	// Most messages have few brackets and no surrogates: counting is far cheaper than walking.
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= maxDepth &&
		!bytes.Contains(data, []byte(`\ud`)) && !bytes.Contains(data, []byte(`\uD`)) {
		return -1, false
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end, l := stringEnd(data, i)
			lone = lone || l
			i = end - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return i, lone
			}
		case '}', ']':
			depth--
		}
	}
	return -1, lone
}

// stringEnd returns the offset after the closing quote of the string that opens at start (or the
// end of the data), and whether it holds an escaped lone surrogate.
func stringEnd(data []byte, start int) (end int, lone bool) {
	i := start + 1
	for i < len(data) {
		q := bytes.IndexByte(data[i:], '"')
		if q < 0 {
			return len(data), lone
		}
		b := bytes.IndexByte(data[i:i+q], '\\')
		if b < 0 {
			return i + q + 1, lone
		}
		i += b
		// Escapes come in runs: go byte by byte until a stretch without them.
		for i < len(data) && data[i] == '\\' {
			n, l := escapeLen(data[i:])
			lone = lone || l
			i += n
		}
	}
	return len(data), lone
}

// escapeLen measures the escape at the start of s; a surrogate pair is one escape.
func escapeLen(s []byte) (n int, lone bool) {
	if len(s) < 6 || s[1] != 'u' {
		return min(2, len(s)), false
	}
	switch u := hex4(s[2:6]); {
	case u < 0xD800 || u > 0xDFFF:
		return 6, false
	case u < 0xDC00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u':
		if low := hex4(s[8:12]); low >= 0xDC00 && low <= 0xDFFF {
			return 12, false
		}
	}
	return 6, true
}

// hex4 reads four hexadecimal digits, or returns -1.
func hex4(s []byte) int {
	v := 0
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | int(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | int(c-'a'+10)
		case 'A' <= c && c <= 'F':
			v = v<<4 | int(c-'A'+10)
		default:
			return -1
		}
	}
	return v
}
