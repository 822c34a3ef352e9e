package detect

// hit is one finding: t[start:end] gives way to a marker.
type hit struct {
	start, end int
	kind       Kind
	quoted     bool // the marker needs quotation marks of its own
	nested     bool // it stands in a JSON string, which lets quotation marks stand only escaped
	key        bool // it stands in a member name
}

// trigger is the set of bytes at which a look around may find something. They are chosen to be rare
// in ordinary text; most of a clean text is passed by a table look-up a byte.
var trigger = func() (set [256]bool) {
	for _, c := range []byte("_-JIBb@:=[+0123456789") {
		set[c] = true
	}
	return set
}()

// quiet reports whether nothing in t can be a secret.
func quiet(t []byte) bool {
	for _, c := range t {
		if trigger[c] {
			return false
		}
	}
	return true
}

// textScan walks once over a text. All looks back are bounded and all runs are consumed, so that
// the work is linear in the length of the text whatever it holds.
type textScan struct {
	names  *nameRules
	off    map[Kind]bool
	t      []byte
	lo     int // end of the last hit; nothing before it is looked at again
	hits   []hit
	noJWT  int // no JWT begins before this index
	resume int // after a URL's user part: where to go on; 0 means none
	limit  int
}

// scan returns the hits in t, in order and without overlap, appended to hits.
func (s *textScan) scan(t []byte, hits []hit) []hit {
	s.t, s.lo, s.noJWT, s.hits, s.resume, s.limit = t, 0, 0, hits, 0, len(t)
	for i := 0; ; {
		s.advance(i)
		if s.resume == 0 {
			break
		}
		// What was read is the user of a URL; its password comes next.
		pass := hit{start: s.limit, end: s.resume - 1, kind: KindURL}
		i, s.resume, s.limit = s.resume, 0, len(t)
		if !isMarker(t[pass.start:pass.end]) {
			s.add(pass)
		}
		s.lo = i
	}
	return s.hits
}

// advance goes from i to the limit, or beyond it when a finding reaches further.
func (s *textScan) advance(i int) {
	t := s.t
	for i < s.limit {
		c := t[i]
		if !trigger[c] {
			i++
			continue
		}
		next := 0
		switch c {
		case '_':
			next = s.underscore(i)
		case '-':
			next = s.dash(i)
		case 'J':
			next = s.jwt(i)
		case 'I':
			next = s.capital(i)
		case 'B', 'b':
			next = s.scheme(i)
		case '@':
			next = s.email(i)
		case ':', '=':
			next = s.separator(i)
		case '[':
			if n := markerAt(t[i:]); n > 0 {
				next = i + n
				s.lo = next
			}
		case '+':
			next = s.phone(i)
		default:
			next = s.digits(i)
		}
		i = max(next, i+1)
	}
}

// add records a hit and returns where to go on. A hit that would cut into the password of a URL
// takes the whole of it.
func (s *textScan) add(h hit) int {
	if s.off[h.kind] || h.start < s.lo || h.start >= h.end {
		return 0
	}
	if s.resume > 0 && h.end > s.limit {
		h.end = max(h.end, s.resume-1)
		s.resume, s.limit = 0, len(s.t)
	}
	s.hits = append(s.hits, h)
	s.lo = h.end
	return h.end
}
