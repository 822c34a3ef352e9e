package detect

func isDigit(c byte) bool { return c-'0' <= 9 }
func isLower(c byte) bool { return c-'a' <= 'z'-'a' }
func isUpper(c byte) bool { return c-'A' <= 'Z'-'A' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }
func isAlnum(c byte) bool { return isAlpha(c) || isDigit(c) }
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
func isWord(c byte) bool  { return isAlnum(c) || c == '_' || c == '-' }

// isB64 accepts the alphabets of base64, base64url and RFC 6750 tokens.
func isB64(c byte) bool {
	return isWord(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '='
}

// run returns the index of the first byte from i on that in does not accept.
func run(t []byte, i int, in func(byte) bool) int {
	for i < len(t) && in(t[i]) {
		i++
	}
	return i
}

// has reports whether t holds word at index i.
func has(t []byte, i int, word string) bool {
	return i >= 0 && len(t)-i >= len(word) && string(t[i:i+len(word)]) == word
}

// hasFold is has without regard to ASCII case; word is in lower case.
func hasFold(t []byte, i int, word string) bool {
	if i < 0 || len(t)-i < len(word) {
		return false
	}
	for k := range len(word) {
		c := t[i+k]
		if isUpper(c) {
			c |= 0x20
		}
		if c != word[k] {
			return false
		}
	}
	return true
}

// bounded reports whether a word may begin at index i: nothing before it belongs to the same word.
func bounded(t []byte, lo, i int) bool {
	return i >= lo && (i == lo || !isAlnum(t[i-1]))
}
