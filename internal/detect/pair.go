package detect

import "bytes"

// separator looks at ':' and '=': a URL with a password, or a value under a secret name.
func (s *textScan) separator(i int) int {
	t := s.t
	if has(t, i, "://") {
		return s.url(i)
	}
	if i == s.lo || i+1 >= len(t) {
		return 0
	}
	name, quoted := s.nameBefore(i)
	if len(name) == 0 || !s.names.secret(name) {
		return 0
	}
	return s.value(i, name, quoted)
}

// nameBefore returns the name that ends before index i, and whether it stands in quotation marks.
func (s *textScan) nameBefore(i int) (name []byte, quoted bool) {
	t, end := s.t, i
	for end > s.lo && i-end < 4 && t[end-1] == ' ' {
		end--
	}
	if end > s.lo && t[end-1] == ']' {
		end-- // env["SECRET"] = …
	}
	if end > s.lo && isQuote(t[end-1]) {
		quoted = true
		end--
		for end > s.lo && i-end < 16 && t[end-1] == '\\' {
			end--
		}
	}
	start := end
	for start > s.lo && end-start < maxName && (isWord(t[start-1]) || t[start-1] == '.') {
		start--
	}
	if word := t[start:end]; len(word) == 3 && hasFold(word, 0, "key") && start > s.lo && t[start-1] == ' ' {
		start--
		for start > s.lo && end-start < maxName && isWord(t[start-1]) {
			start--
		}
	}
	return t[start:end], quoted
}

// value finds what stands after the separator at i under a secret name.
func (s *textScan) value(i int, name []byte, quoted bool) int {
	t := s.t
	v := run(t, i, func(c byte) bool { return c == ':' || c == '=' || c == '>' })
	word := v
	v = run(t, v, func(c byte) bool { return c == ' ' || c == '\t' || quoted && isSpace(c) })
	spaced := v > word
	if v >= len(t) {
		return 0
	}
	mark := run(t, v, func(c byte) bool { return c == '\\' })
	if mark < len(t) && isQuote(t[mark]) {
		return s.quotedValue(mark)
	}
	n := markerAt(t[v:])
	if n > 0 && stops(t, v+n) {
		s.lo = v + n
		return v + n
	}
	if quoted && n == 0 && (t[v] == '{' || t[v] == '[') {
		end := skipNested(t, v)
		if blank(t[v+1 : max(v+1, end-1)]) {
			return 0
		}
		return s.add(hit{start: v, end: end, kind: KindByName, quoted: true})
	}
	end := v + n
	if wholeLine(name) {
		end = run(t, v, func(c byte) bool { return c != '\n' && c != '\r' && c != '"' })
	} else {
		for end < len(t) && !stops(t, end) {
			end++
		}
	}
	found := t[v:end]
	if harmless(found) || spaced && !quoted && !wholeLine(name) && !secretish(found) {
		return 0
	}
	return s.add(hit{start: v, end: end, kind: KindByName, quoted: quoted})
}

// quotedValue takes what stands between the quotation mark at i and the next of its kind, which may
// itself be escaped where JSON lies in a string.
func (s *textScan) quotedValue(i int) int {
	t, mark := s.t, s.t[i]
	outer := slashesBefore(t, i)
	end, slashes := i+1, 0
	for ; end < len(t); end++ {
		if t[end] == '\\' {
			slashes++
			continue
		}
		// More of them than before the first mark escape it: it belongs to the value.
		if t[end] == mark && (slashes <= outer || outer == 0 && slashes%2 == 0) {
			end -= min(slashes, outer)
			break
		}
		slashes = 0
	}
	found := t[i+1 : end]
	if len(found) == 0 {
		return 0
	}
	if isMarker(found) {
		s.lo = end
		return end
	}
	return s.add(hit{start: i + 1, end: end, kind: KindByName})
}

// wholeLine names headers whose value has several words.
func wholeLine(name []byte) bool {
	var buf [maxName]byte
	plain, _ := normalize(buf[:0], name)
	return bytes.HasSuffix(plain, []byte("authorization")) || bytes.HasSuffix(plain, []byte("cookie"))
}

// stops reports whether a bare value ends before index i.
func stops(t []byte, i int) bool {
	if i >= len(t) {
		return true
	}
	switch c := t[i]; c {
	case ' ', '\t', '\n', '\r', '"', '\'', '`', ';', '&', '<', '>', '\\':
		return true
	case ',', ')', '}', ']':
		return i+1 >= len(t) || isSpace(t[i+1]) || isQuote(t[i+1]) || c != ',' && bytes.IndexByte([]byte(",;.:)}]"), t[i+1]) >= 0
	}
	return false
}

// harmless reports whether a bare value says nothing.
func harmless(v []byte) bool {
	switch string(v) {
	case "", "true", "false", "null", "none", "nil", "undefined", "True", "False", "None":
		return true
	}
	return false
}

func slashesBefore(t []byte, i int) int {
	n := 0
	for n < i && t[i-1-n] == '\\' {
		n++
	}
	return n
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

func blank(t []byte) bool { return run(t, 0, isSpace) == len(t) }

// url looks at "://" for a user part with a password. A password may hold characters that should
// have been escaped; then it ends at the last '@' of the word.
func (s *textScan) url(i int) int {
	if s.resume > 0 {
		return 0 // a URL in the user part of another
	}
	t, from := s.t, i+len("://")
	colon, slash, at, lastAt := -1, -1, -1, -1
	end := from
scan:
	for ; end < len(t); end++ {
		switch c := t[end]; c {
		case ' ', '\t', '\n', '\r', '"', '\'', '<', '>', '`':
			break scan
		case ':':
			if has(t, end, "://") {
				break scan
			}
			if colon < 0 && slash < 0 {
				colon = end
			}
		case '/', '?', '#':
			if slash < 0 {
				slash = end
			}
		case '@':
			if slash < 0 {
				at = end
			}
			lastAt = end
		case '[':
			end += max(markerAt(t[end:])-1, 0)
		}
	}
	if at < 0 && colon >= 0 && slash > colon && lastAt > slash && !port(t[colon+1:slash]) {
		at = lastAt
	}
	switch {
	case at < 0:
		return from
	case colon < 0 || colon >= at:
		colon = at - 1 // no password; but scheme://user@host is no e-mail address either
	}
	s.resume, s.limit = at+1, colon+1
	return from
}

func port(t []byte) bool { return len(t) > 0 && len(t) <= 5 && run(t, 0, isDigit) == len(t) }
