package detect

import (
	"bytes"
	"strconv"
)

// pass reads b once.
func (w *walker) pass(b []byte) (out []byte, found int) {
	w.read(b)
	if len(w.hits) == 0 {
		return b, 0
	}
	return splice(b, w.hits), len(w.hits)
}

// read fills w.hits.
func (w *walker) read(b []byte) {
	w.hits, w.depth, w.schema, w.named, w.nextSchema = w.hits[:0], 0, 0, 0, false
	if !w.walk(b) {
		w.hits = w.text.scan(b, w.hits[:0])
		if len(w.hits) == 0 && bytes.IndexByte(b, '\\') >= 0 {
			w.dec = unescape(w.dec[:0], b)
			w.hits = w.text.scan(w.dec, w.hits)
			rawHits(w.hits, b, 0)
		}
	}
}

// highestNumber returns the highest N of the markers "[redacted:kind:N]" in b. Markers in member
// names are numbered from there, because equal names in one object are no valid JSON.
func highestNumber(b []byte) int {
	highest := 0
	for {
		i := bytes.Index(b, []byte(markerPrefix))
		if i < 0 {
			return highest
		}
		n := markerAt(b[i:])
		if n == 0 {
			b = b[i+len(markerPrefix):]
			continue
		}
		marker := b[i : i+n-1]
		if v, err := strconv.Atoi(string(marker[bytes.LastIndexByte(marker, ':')+1:])); err == nil {
			highest = max(highest, v)
		}
		b = b[i+n:]
	}
}

// splice returns b with a marker in the place of every hit.
func splice(b []byte, hits []hit) []byte {
	out := make([]byte, 0, len(b)+16*len(hits))
	from, number := 0, -1
	for _, h := range hits {
		out = append(out, b[from:h.start]...)
		mark := h.mark()
		out = append(out, mark...)
		out = append(out, markerPrefix...)
		out = append(out, h.kind...)
		if h.key {
			if number < 0 {
				number = highestNumber(b)
			}
			number++
			out = append(out, ':')
			out = strconv.AppendInt(out, int64(number), 10)
		}
		out = append(out, ']')
		out = append(out, mark...)
		from = h.end
	}
	return append(out, b[from:]...)
}

// mark is the quotation mark that goes around the marker.
func (h hit) mark() string {
	switch {
	case !h.quoted:
		return ""
	case h.nested:
		return `\"`
	}
	return `"`
}
