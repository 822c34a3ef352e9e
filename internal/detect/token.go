package detect

import "bytes"

// underscore looks at tokens whose prefix ends in or holds '_'.
func (s *textScan) underscore(i int) int {
	t := s.t
	if i-3 >= s.lo && i >= 3 {
		switch string(t[i-3 : i]) {
		case "ghp", "gho", "ghs", "ghu", "ghr":
			return s.token(i-3, i+1, 20, KindGitHub)
		case "npm":
			return s.token(i-3, i+1, 30, KindNPM)
		}
	}
	if has(t, i-6, "github_pat_") {
		return s.token(i-6, i+5, 20, KindGitHub)
	}
	if has(t, i-5, "whsec_") {
		return s.token(i-5, i+1, 16, KindStripe)
	}
	if i >= 2 && t[i-1] == 'k' && (t[i-2] == 's' || t[i-2] == 'p' || t[i-2] == 'r') &&
		(has(t, i+1, "live_") || has(t, i+1, "test_")) {
		return s.token(i-2, i+6, 8, KindStripe)
	}
	return 0
}

// token is a hit when it is bounded in front and has at least least bytes after its prefix.
func (s *textScan) token(start, body, least int, kind Kind) int {
	if !bounded(s.t, s.lo, start) {
		return 0
	}
	end := run(s.t, body, isWord)
	if end-body < least {
		return 0
	}
	return s.add(hit{start: start, end: end, kind: kind})
}

// dash looks at tokens with '-' in their prefix, and at PEM blocks.
func (s *textScan) dash(i int) int {
	t := s.t
	switch {
	case has(t, i, "-----BEGIN "):
		return s.pem(i)
	case i >= 4 && has(t, i-4, "xox"), has(t, i-4, "xapp"):
		return s.token(i-4, i+1, 10, KindSlack)
	case has(t, i-5, "glpat"):
		return s.token(i-5, i+1, 16, KindGitLab)
	case has(t, i-2, "sk"):
		return s.token(i-2, i+1, 20, KindModel)
	case i >= 3 && isDigit(t[i-1]):
		return s.phoneEnd(i)
	}
	return 0
}

// pem takes a private key to its END line, or to the end of the text where that was cut off.
func (s *textScan) pem(i int) int {
	t := s.t
	label := i + len("-----BEGIN ")
	dashes := bytes.Index(t[label:min(len(t), label+64)], []byte("-----"))
	if dashes < 0 || !bytes.Contains(t[label:label+dashes], []byte("PRIVATE KEY")) {
		return 0
	}
	body := label + dashes + len("-----")
	end := bytes.Index(t[body:], []byte("-----END "))
	if end < 0 {
		return s.add(hit{start: i, end: len(t), kind: KindPEM})
	}
	end += body + len("-----END ")
	if tail := bytes.Index(t[end:min(len(t), end+64)], []byte("-----")); tail >= 0 {
		end += tail + len("-----")
	}
	return s.add(hit{start: i, end: end, kind: KindPEM})
}

// jwt looks at the J of "eyJ", the base64 of `{"`.
func (s *textScan) jwt(i int) int {
	t, start := s.t, i-2
	if start < s.noJWT || !has(t, start, "eyJ") || !bounded(t, s.lo, start) {
		return 0
	}
	header := run(t, i+1, isWord)
	if header >= len(t) || t[header] != '.' {
		s.noJWT = header // as good as every other beginning in this run
		return 0
	}
	if header-start < 10 {
		return 0
	}
	end := run(t, header+1, func(c byte) bool { return isWord(c) || c == '.' })
	if end-header < 8 {
		s.noJWT = header
		return 0
	}
	return s.add(hit{start: start, end: end, kind: KindJWT})
}

// capital looks at the I of AKIA, ASIA and AIza.
func (s *textScan) capital(i int) int {
	t := s.t
	if has(t, i-1, "AIza") {
		return s.token(i-1, i+3, 30, KindGoogle)
	}
	if !has(t, i-2, "AKIA") && !has(t, i-2, "ASIA") {
		return 0
	}
	if !bounded(t, s.lo, i-2) {
		return 0
	}
	end := run(t, i+2, func(c byte) bool { return isUpper(c) || isDigit(c) })
	if end-(i+2) < 16 || end < len(t) && isAlnum(t[end]) {
		return 0
	}
	return s.add(hit{start: i - 2, end: end, kind: KindAWS})
}

// scheme looks at Bearer and Basic credentials (RFC 6750, RFC 7617).
func (s *textScan) scheme(i int) int {
	t := s.t
	var value int
	switch {
	case hasFold(t, i, "bearer "):
		value = i + len("bearer ")
	case hasFold(t, i, "basic "):
		value = i + len("basic ")
	default:
		return 0
	}
	if !bounded(t, s.lo, i) {
		return 0
	}
	value = run(t, value, func(c byte) bool { return c == ' ' })
	end := run(t, value, isB64)
	if end-value < 8 || !secretish(t[value:end]) {
		return 0
	}
	return s.add(hit{start: value, end: end, kind: KindBearer})
}

// secretish tells a credential from a word of prose.
func secretish(v []byte) bool {
	if len(v) >= 20 {
		return true
	}
	for i, c := range v {
		if !isAlpha(c) && (c != '.' && c != '-' || i < len(v)-1) {
			return true
		}
	}
	return false
}
