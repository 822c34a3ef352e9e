package detect

import "bytes"

// walker goes over JSON by its tokens only: it does not judge whether they are in a right order, so
// that several values in a row, or a wrong comma, do not switch redaction off. What has bytes that
// no JSON has outside of strings is not its business, and is read as text.
type walker struct {
	text  *textScan
	hits  []hit // in the raw bytes
	dec   []byte
	depth int
	// schema tells, for the 64 outermost depths, that the object there is the value of a member
	// "properties": names in it are declared, not filled in. named tells that a member "name" of the
	// object gave the name of a secret, whose value is to follow.
	schema, named uint64
	nextSchema    bool
}

// outside has the bytes that JSON has between its strings.
var outside = func() (set [256]bool) {
	for _, c := range []byte(" \n\t\r{}[],:0123456789+-.eEtrufalsn") {
		set[c] = true
	}
	return set
}()

// walk fills w.hits; false means that b is no JSON.
func (w *walker) walk(b []byte) bool {
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case c == '"':
			end, escaped := stringEnd(b, i+1)
			if end < 0 {
				return false
			}
			next := skipSpace(b, end+1)
			if next < len(b) && b[next] == ':' {
				i = w.member(b, i+1, end, escaped, skipSpace(b, next+1))
			} else {
				w.str(b, i+1, end, escaped)
				i = end + 1
			}
		case isDigit(c) || c == '-':
			end := run(b, i, isNumber)
			if next := skipSpace(b, end); next < len(b) && isNumber(b[next]) || parted(b[i+1:end]) {
				return false // digits in groups: text
			}
			w.number(b, i, end)
			i = end
		case c == '{' || c == '[':
			w.open()
			i++
		case c == '}' || c == ']':
			w.depth--
			i++
		case !outside[c]:
			return false
		default:
			i++
		}
	}
	return true
}

func (w *walker) open() {
	w.depth++
	if bit := w.bit(); bit != 0 {
		w.schema &^= bit
		w.named &^= bit
		if w.nextSchema {
			w.schema |= bit
		}
	}
	w.nextSchema = false
}

func (w *walker) bit() uint64 {
	if w.depth < 0 || w.depth > 63 {
		return 0
	}
	return 1 << w.depth
}

// member handles the name b[start:end] and, where the name says that it is a secret, the value at v.
// It returns where to go on.
func (w *walker) member(b []byte, start, end int, escaped bool, v int) int {
	name := b[start:end]
	if escaped {
		w.dec = unescape(w.dec[:0], name)
		name = w.dec
	}
	secret := w.text.names.secret(name)
	switch {
	case w.named&w.bit() != 0 && string(name) == "value":
		secret = true
	case len(name) == 4 && string(name) == "name" || len(name) == 3 && string(name) == "key":
		w.pairName(b, v)
	}
	declares := string(name) == "properties"
	before := len(w.hits)
	w.str(b, start, end, escaped)
	for i := before; i < len(w.hits); i++ {
		w.hits[i].key = true
	}
	if w.text.off[KindByName] || !secret || v >= len(b) {
		w.nextSchema = declares && v < len(b) && b[v] == '{'
		return v
	}
	if w.schema&w.bit() != 0 && b[v] == '{' && isSchema(b[v:skipNested(b, v)]) {
		return v
	}
	return w.secretValue(b, v)
}

// pairName looks at {"name":"API_KEY","value":…}.
func (w *walker) pairName(b []byte, v int) {
	if v >= len(b) || b[v] != '"' {
		return
	}
	end, _ := stringEnd(b, v+1)
	if end > 0 && end-v <= maxName && w.text.names.secret(b[v+1:end]) {
		w.named |= w.bit()
	} else {
		w.named &^= w.bit()
	}
}

// secretValue takes the whole value at v, whatever it is; true, false, null and empty values say
// nothing and stay.
func (w *walker) secretValue(b []byte, v int) int {
	h := hit{start: v, kind: KindByName, quoted: true}
	switch c := b[v]; {
	case c == '"':
		end, _ := stringEnd(b, v+1)
		if end < 0 {
			return v // the walk meets it again and gives up
		}
		if end == v+1 || isMarker(b[v+1:end]) {
			return end + 1
		}
		w.hits = append(w.hits, hit{start: v + 1, end: end, kind: KindByName})
		return end + 1
	case c == '{' || c == '[':
		h.end = skipNested(b, v)
		if blank(b[v+1 : max(v+1, h.end-1)]) {
			return v
		}
	case isDigit(c) || c == '-':
		h.end = run(b, v, isNumber)
	default:
		return v
	}
	w.hits = append(w.hits, h)
	return h.end
}

// str scans the string body b[start:end].
func (w *walker) str(b []byte, start, end int, escaped bool) {
	if end-start < 5 || !escaped && quiet(b[start:end]) {
		return // no kind of secret is as short
	}
	before := len(w.hits)
	body := b[start:end]
	if escaped {
		w.dec = unescape(w.dec[:0], body)
		w.hits = w.text.scan(w.dec, w.hits)
		rawHits(w.hits[before:], body, start)
	} else {
		w.hits = w.text.scan(body, w.hits)
		for i := before; i < len(w.hits); i++ {
			w.hits[i].start += start
			w.hits[i].end += start
		}
	}
	for i := before; i < len(w.hits); i++ {
		w.hits[i].nested = true
	}
}

// number looks for a card number written without quotation marks.
func (w *walker) number(b []byte, start, end int) {
	if end-start < 13 || w.text.off[KindCard] {
		return
	}
	from := start
	if b[from] == '-' {
		from++
	}
	to := run(b, from, isDigit)
	if cardEnd(b[from:to], 0) == to-from && to > from {
		w.hits = append(w.hits, hit{start: start, end: end, kind: KindCard, quoted: true})
	}
}

// parted reports whether a sign stands within a number other than before its exponent.
func parted(n []byte) bool {
	for i, c := range n {
		if (c == '-' || c == '+') && (i == 0 || n[i-1]|0x20 != 'e') {
			return true
		}
	}
	return false
}

func isNumber(c byte) bool {
	return isDigit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && isSpace(b[i]) {
		i++
	}
	return i
}

// stringEnd returns the index of the quotation mark that ends the string whose body begins at i, and
// whether the body has escapes; -1 where it never ends.
func stringEnd(b []byte, i int) (end int, escaped bool) {
	for short := min(len(b), i+32); i < short && b[i] != '\\'; i++ { // most strings end here
		if b[i] == '"' {
			return i, false
		}
	}
	quote := bytes.IndexByte(b[i:], '"')
	if quote < 0 {
		return -1, false
	}
	quote += i
	slash := bytes.IndexByte(b[i:quote], '\\')
	if slash < 0 {
		return quote, false
	}
	for slash += i; ; {
		next := slash + 2 // behind the escape
		if next > len(b) {
			return -1, true
		}
		if quote < next {
			if quote = bytes.IndexByte(b[next:], '"'); quote < 0 {
				return -1, true
			}
			quote += next
		}
		if slash = bytes.IndexByte(b[next:quote], '\\'); slash < 0 {
			return quote, true
		}
		slash += next
	}
}

// skipNested returns the index after the bracket that closes the one at i, or the end of b.
func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end, _ := stringEnd(b, i+1)
			if end < 0 {
				return len(b)
			}
			i = end
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

// schemaWords are the members of a JSON Schema that never hold a value of the thing described.
var schemaWords = map[string]bool{
	"type": true, "title": true, "description": true, "format": true, "pattern": true, "minLength": true,
	"maxLength": true, "minimum": true, "maximum": true, "minItems": true, "maxItems": true, "items": true,
	"properties": true, "required": true, "additionalProperties": true, "anyOf": true, "oneOf": true,
	"allOf": true, "not": true, "$ref": true, "$comment": true, "nullable": true, "deprecated": true,
	"readOnly": true, "writeOnly": true, "contentEncoding": true, "contentMediaType": true,
}

// isSchema reports whether the object obj is a JSON Schema without examples or constants.
func isSchema(obj []byte) bool {
	depth, members := 0, 0
	for i := 0; i < len(obj); i++ {
		switch obj[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end, _ := stringEnd(obj, i+1)
			if end < 0 {
				return false
			}
			next := skipSpace(obj, end+1)
			if depth == 1 && next < len(obj) && obj[next] == ':' {
				if !schemaWords[string(obj[i+1:end])] {
					return false
				}
				members++
			}
			i = end
		}
	}
	return members > 0
}
