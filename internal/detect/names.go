package detect

import (
	"bytes"
	"math/bits"
	"slices"
)

const maxName = 64 // bytes of a name that are looked at; of a longer one the last

// nameRules judges whether what stands under a name is a secret. Names are compared without case
// and punctuation: apiKey, api_key, API-KEY and x.api.key are all "apikey".
type nameRules struct {
	byLetter [26][]nameRule // filed under the rarest letter of each
	filed    uint32         // the letters that have rules
	ends     [][]byte       // how a harmless name ends, although a part says otherwise
	tokens   [][]byte       // what "token" is harmless after
	safe     map[string]bool
}

type nameRule struct {
	text    []byte
	letters uint32 // set of its letters, to rule out most names at once
	whole   bool   // the whole name, not a part of it
}

// rarest has the letters of English from the rarest on.
const rarest = "zqxjkvwyhbpcdgmfulrnsioate"

// secretParts make a name secret wherever they stand in it.
var secretParts = []string{
	"password", "passwd", "passphrase", "passcode", "secret", "apikey", "privatekey", "accesskey",
	"signingkey", "encryptionkey", "masterkey", "accountkey", "sshkey", "credential", "authorization",
	"setcookie",
}

// harmlessEnds are attributes of a secret, not the secret.
var harmlessEnds = []string{
	"length", "len", "count", "policy", "type", "name", "url", "uri", "endpoint", "required", "enabled",
	"expiry", "expires", "expiresat", "expiresin", "ttl", "hint", "path", "file", "arn", "version", "status",
	"secretary",
}

var secretNames = []string{"pass", "pwd", "cookie", "cvv", "cvc", "ssn", "otp", "token", "bearer"}

// harmlessTokens are tokens of the protocol, of paging and of language models.
var harmlessTokens = []string{
	"progress", "page", "next", "continuation", "sync", "cursor", "stop", "eos", "bos", "pad", "unk", "sep", "mask",
	"cancellation", "per",
}

func newNameRules(extra, safe []string) *nameRules {
	rules := &nameRules{safe: map[string]bool{}}
	for _, text := range secretParts {
		rules.file(text, false)
	}
	for _, name := range slices.Concat(secretNames, extra) {
		rules.file(name, true)
	}
	for _, text := range harmlessEnds {
		rules.ends = append(rules.ends, []byte(text))
	}
	for _, text := range harmlessTokens {
		rules.tokens = append(rules.tokens, []byte(text))
	}
	for _, name := range safe {
		rules.safe[plainName(name)] = true
	}
	return rules
}

func (r *nameRules) file(name string, whole bool) {
	plain, letters := normalize(nil, []byte(name))
	for _, c := range []byte(rarest) {
		if bit := uint32(1) << (c - 'a'); letters&bit != 0 {
			r.byLetter[c-'a'] = append(r.byLetter[c-'a'], nameRule{text: plain, letters: letters, whole: whole})
			r.filed |= bit
			return
		}
	}
}

// secret reports whether a value under this name is a secret.
func (r *nameRules) secret(name []byte) bool {
	if len(name) < 3 {
		return false
	}
	var buf [maxName]byte
	plain, letters := normalize(buf[:0], name)
	return r.judge(plain, letters) && !r.safe[string(plain)]
}

func (r *nameRules) judge(plain []byte, letters uint32) bool {
	for left := letters & r.filed; left != 0; left &= left - 1 {
		for i := range r.byLetter[bits.TrailingZeros32(left)] {
			rule := &r.byLetter[bits.TrailingZeros32(left)][i]
			switch {
			case rule.letters&^letters != 0:
			case rule.whole:
				if bytes.Equal(plain, rule.text) {
					return true
				}
			case bytes.Contains(plain, rule.text):
				return !r.endsIn(plain, r.ends)
			}
		}
	}
	before, ok := bytes.CutSuffix(plain, []byte("token"))
	return ok && !r.endsIn(before, r.tokens)
}

func (r *nameRules) endsIn(plain []byte, ends [][]byte) bool {
	for _, end := range ends {
		if bytes.HasSuffix(plain, end) {
			return true
		}
	}
	return false
}

// plainByte has the form of a byte in a plain name: letters in lower case, digits, 0 for the rest.
var plainByte = func() (table [256]byte) {
	for c := range table {
		switch b := byte(c); {
		case isLower(b), isDigit(b):
			table[c] = b
		case isUpper(b):
			table[c] = b | 0x20
		}
	}
	return table
}()

// normalize appends the letters and digits of name in lower case, and returns the set of letters.
func normalize(dst, name []byte) (plain []byte, letters uint32) {
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	for _, c := range name {
		if c = plainByte[c]; c != 0 {
			dst = append(dst, c)
			if c >= 'a' {
				letters |= 1 << (c - 'a')
			}
		}
	}
	return dst, letters
}

func plainName(name string) string {
	plain, _ := normalize(nil, []byte(name))
	return string(plain)
}
