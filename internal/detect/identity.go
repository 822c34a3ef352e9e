package detect

import "slices"

const maxLocal = 64 // RFC 5321, bytes of the part before '@'

// email looks around an '@'.
func (s *textScan) email(i int) int {
	t := s.t
	start := i
	for start > s.lo && i-start < maxLocal && isLocal(t[start-1]) {
		start--
	}
	for start < i && (t[start]&0xC0 == 0x80 || t[start] == '.') {
		start++ // neither a cut rune nor a full stop before
	}
	if start == i {
		return 0
	}
	end, label, dots, letters := i+1, i+1, 0, true
	for end < len(t) && (isWord(t[end]) && t[end] != '_' || t[end] == '.' || t[end] >= 0x80) {
		switch c := t[end]; {
		case c == '.':
			if end == label || end+1 >= len(t) || !isAlnum(t[end+1]) && t[end+1] < 0x80 {
				goto done
			}
			dots, label, letters = dots+1, end+1, true
		case !isAlpha(c) && c < 0x80:
			letters = false
		}
		end++
	}
done:
	if dots == 0 || end-label < 2 || !letters && !has(t, label, "xn--") {
		return 0
	}
	return s.add(hit{start: start, end: end, kind: KindEmail})
}

func isLocal(c byte) bool {
	return isWord(c) || c == '.' || c == '+' || c == '%' || c == '\'' || c >= 0x80
}

// card looks at the first digit of a number.
func (s *textScan) card(i int) int {
	t := s.t
	if len(t)-i < 13 || !isDigit(t[i+1]) || t[i] == '2' && (t[i+1] < '2' || t[i+1] > '7') {
		return 0 // most numbers are no longer looked at, times and dates above all
	}
	if !bounded(t, s.lo, i) || i > s.lo && t[i-1] == '.' {
		return 0
	}
	end := cardEnd(t, i)
	if end == 0 {
		return 0
	}
	return s.add(hit{start: i, end: end, kind: KindCard})
}

// cardEnd returns the index after the card number that begins at i, or 0. Digits stand together, or
// in the groups that are printed on cards, parted by one space or dash.
func cardEnd(t []byte, i int) int {
	var digits [20]byte
	var groups [6]int
	n, g, end, sep := 0, 0, i, byte(0)
	for end < len(t) && n < len(digits) {
		c := t[end]
		if isDigit(c) {
			digits[n] = c - '0'
			groups[g]++
			n++
			end++
			continue
		}
		if (c != ' ' && c != '-') || (sep != 0 && c != sep) || g+1 == len(groups) ||
			groups[0] > 4 || end+1 >= len(t) || !isDigit(t[end+1]) {
			break
		}
		sep = c
		// A fifth group belongs to a card only when the number has no room for it otherwise.
		if n == 16 || n == 15 && groups[1] == 6 || n == 14 && groups[1] == 6 {
			break
		}
		g++
		end++
	}
	if n < 13 || n > 19 || end < len(t) && (isAlnum(t[end]) || t[end] == '.' && end+1 < len(t) && isDigit(t[end+1])) {
		return 0
	}
	if g > 0 && !printed(groups[:g+1]) || !issued(digits[:n]) || !luhn(digits[:n]) {
		return 0
	}
	return end
}

// printed reports whether the groups are those of a card: 4-4-4-4(-3), 4-6-5 or 4-6-4.
func printed(groups []int) bool {
	switch len(groups) {
	case 3:
		return groups[0] == 4 && groups[1] == 6 && (groups[2] == 5 || groups[2] == 4)
	case 4, 5:
		return groups[0] == 4 && groups[1] == 4 && groups[2] == 4 && groups[3] <= 4
	}
	return false
}

// issued reports whether the first digits belong to a card scheme and the length fits it. It keeps
// times in microseconds and most ids out, one in ten of which would pass the check digit.
func issued(d []byte) bool {
	two := int(d[0])*10 + int(d[1])
	four := two*100 + int(d[2])*10 + int(d[3])
	switch n := len(d); {
	case d[0] == 4:
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return n == 16
	case two == 34 || two == 37:
		return n == 15
	case two == 36 || two == 38 || four >= 3000 && four <= 3059:
		return n == 14 || n == 16
	case four == 6011 || two == 65 || two == 64, two == 62, two == 60, four >= 3528 && four <= 3589:
		return n >= 16
	}
	return false
}

func luhn(d []byte) bool {
	sum, double := 0, false
	for _, digit := range slices.Backward(d) {
		v := int(digit)
		if double {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
		double = !double
	}
	return sum%10 == 0
}
