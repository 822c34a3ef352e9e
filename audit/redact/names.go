package redact

import (
	"bytes"
	"slices"
)

const maxName = 64 // bytes of a name that are looked at; of a longer one the last

// nameRules judges whether what stands under a name is a secret. Names are compared without case
// and punctuation: apiKey, api_key, API-KEY and x.api.key are all "apikey".
type nameRules struct {
	parts  []namePart // anywhere in the name
	ends   [][]byte   // how a harmless name ends, although a part says otherwise
	exact  map[string]bool
	safe   map[string]bool
	tokens [][]byte // what "token" is harmless after
}

type namePart struct {
	text    []byte
	letters uint32 // set of its letters, to rule out most names at once
}

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
	rules := &nameRules{exact: map[string]bool{}, safe: map[string]bool{}}
	for _, text := range secretParts {
		rules.parts = append(rules.parts, namePart{text: []byte(text), letters: lettersOf([]byte(text))})
	}
	for _, text := range harmlessEnds {
		rules.ends = append(rules.ends, []byte(text))
	}
	for _, text := range harmlessTokens {
		rules.tokens = append(rules.tokens, []byte(text))
	}
	for _, name := range slices.Concat(secretNames, extra) {
		rules.exact[plainName(name)] = true
	}
	for _, name := range safe {
		rules.safe[plainName(name)] = true
	}
	return rules
}

// secret reports whether a value under this name is a secret.
func (r *nameRules) secret(name []byte) bool {
	var buf [maxName]byte
	plain, letters := normalize(buf[:0], name)
	if len(plain) < 3 || r.safe[string(plain)] {
		return false
	}
	if r.exact[string(plain)] {
		return true
	}
	if before, ok := bytes.CutSuffix(plain, []byte("token")); ok {
		return !r.endsIn(before, r.tokens)
	}
	for i := range r.parts {
		part := &r.parts[i]
		if part.letters&^letters == 0 && bytes.Contains(plain, part.text) {
			return !r.endsIn(plain, r.ends)
		}
	}
	return false
}

func (r *nameRules) endsIn(plain []byte, ends [][]byte) bool {
	for _, end := range ends {
		if bytes.HasSuffix(plain, end) {
			return true
		}
	}
	return false
}

// normalize appends the letters and digits of name in lower case, and returns the set of letters.
func normalize(dst, name []byte) (plain []byte, letters uint32) {
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	for _, c := range name {
		switch {
		case isLower(c):
		case isUpper(c):
			c |= 0x20
		case isDigit(c):
			dst = append(dst, c)
			continue
		default:
			continue
		}
		letters |= 1 << (c - 'a')
		dst = append(dst, c)
	}
	return dst, letters
}

func lettersOf(text []byte) uint32 {
	_, letters := normalize(nil, text)
	return letters
}

func plainName(name string) string {
	plain, _ := normalize(nil, []byte(name))
	return string(plain)
}
