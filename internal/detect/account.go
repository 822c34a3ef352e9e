package detect

// digits looks at a digit: an account number behind two letters, else a card number.
func (s *textScan) digits(i int) int {
	t := s.t
	if i-2 >= s.lo && isUpper(t[i-1]) && isUpper(t[i-2]) {
		return s.iban(i - 2)
	}
	if t[i] < '2' || t[i] > '6' {
		return 0 // no card begins so
	}
	return s.card(i)
}

// ibanLength has the length of the account numbers of each country (ISO 13616 registry).
var ibanLength = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28,
	"CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
	"FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28,
	"IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
	"LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28,
	"NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24,
	"SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26,
	"UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}

// iban looks at a country code with a digit behind it. Groups of four may be parted by a space or dash.
func (s *textScan) iban(start int) int {
	t := s.t
	length := ibanLength[string(t[start:start+2])]
	if length == 0 || len(t)-start < length || !isDigit(t[start+3]) || !bounded(t, s.lo, start) {
		return 0
	}
	end, head, rest := start, 0, 0
	for n := range length {
		if n > 0 && n%4 == 0 && end+1 < len(t) && (t[end] == ' ' || t[end] == '-') {
			end++
		}
		if end >= len(t) || !isUpper(t[end]) && !isDigit(t[end]) {
			return 0
		}
		if n < 4 {
			head = mod97(head, t[end])
		} else {
			rest = mod97(rest, t[end])
		}
		end++
	}
	if end < len(t) && isAlnum(t[end]) || (rest*shift97(t[start:start+4])+head)%97 != 1 {
		return 0
	}
	return s.add(hit{start: start, end: end, kind: KindIBAN})
}

// mod97 appends a digit, or a letter as the number 10 to 35, to a number of which the remainder is n.
func mod97(n int, c byte) int {
	if isDigit(c) {
		return (n*10 + int(c-'0')) % 97
	}
	return (n*100 + int(c-'A') + 10) % 97
}

// shift97 is what a number is multiplied with when text is written behind it.
func shift97(text []byte) int {
	shift := 1
	for _, c := range text {
		if shift *= 10; isUpper(c) {
			shift *= 10
		}
	}
	return shift % 97
}

// Bounds of an international phone number, in digits (E.164; fewer than eight are too often something else).
const (
	minPhone = 8
	maxPhone = 15
)

// phone looks at a '+': an international number, of which single signs part the digits.
func (s *textScan) phone(i int) int {
	t := s.t
	if !bounded(t, s.lo, i) || i+1 >= len(t) || t[i+1] < '1' || t[i+1] > '9' {
		return 0
	}
	digits, end, at := 0, 0, i+1
	for ; at < len(t) && digits <= maxPhone; at++ {
		c := t[at]
		if isDigit(c) {
			digits, end = digits+1, at+1
			continue
		}
		if c != ' ' && c != '-' && c != '.' && c != '/' && c != '(' && c != ')' || at-end > 1 {
			break
		}
	}
	if digits < minPhone || digits > maxPhone || end < len(t) && isAlnum(t[end]) {
		return 0
	}
	return s.add(hit{start: i, end: end, kind: KindPhone})
}

// phoneEnd looks at the last dash of 555-555-0100 and (555) 555-0100. Area and exchange begin with 2 to
// 9 in North America, which keeps most other numbers in this form out.
func (s *textScan) phoneEnd(dash int) int {
	t := s.t
	end := run(t, dash+1, isDigit)
	if end-dash != 5 || end < len(t) && (isAlnum(t[end]) || t[end] == '-') || !threeDigits(t, s.lo, dash-3) {
		return 0
	}
	at, closed := dash-4, false
	if at >= s.lo && t[at] == ' ' && at > s.lo && t[at-1] == ')' {
		at--
	}
	switch {
	case at < s.lo:
		return 0
	case t[at] == ')':
		closed = true
	case t[at] != '-':
		return 0
	}
	start := at - 3
	if !threeDigits(t, s.lo, start) {
		return 0
	}
	if closed {
		if start--; start < s.lo || t[start] != '(' {
			return 0
		}
	}
	if start > s.lo && (isAlnum(t[start-1]) || t[start-1] == '-') {
		return 0
	}
	return s.add(hit{start: start, end: end, kind: KindPhone})
}

func threeDigits(t []byte, lo, i int) bool {
	return i >= lo && t[i] >= '2' && t[i] <= '9' && isDigit(t[i+1]) && isDigit(t[i+2])
}
