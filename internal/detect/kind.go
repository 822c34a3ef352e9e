package detect

import (
	"bytes"
	"slices"
)

// Kind names what was found; it is part of the text that takes the value's place.
type Kind string

// The kinds of findings.
const (
	KindGitHub   Kind = "github_token"
	KindAWS      Kind = "aws_key_id"
	KindStripe   Kind = "stripe_key"
	KindSlack    Kind = "slack_token"
	KindGoogle   Kind = "google_api_key"
	KindNPM      Kind = "npm_token"
	KindModel    Kind = "model_api_key" // sk-… keys of model providers
	KindGitLab   Kind = "gitlab_token"
	KindJWT      Kind = "jwt"
	KindPEM      Kind = "private_key"
	KindBearer   Kind = "credentials"  // what follows Bearer or Basic
	KindURL      Kind = "url_password" // the password of scheme://user:password@host
	KindEmail    Kind = "email"
	KindCard     Kind = "card_number" // with a known prefix and a right Luhn digit
	KindIBAN     Kind = "iban"        // of a country that has them, with right check digits (ISO 13616)
	KindPhone    Kind = "phone"       // international with +, or North American with dashes
	KindByName   Kind = "secret"      // stands under a name like password or api_key
	markerPrefix      = "[redacted:"
)

// Kinds lists every kind, in the order of the constants.
func Kinds() []Kind {
	return []Kind{
		KindGitHub, KindAWS, KindStripe, KindSlack, KindGoogle, KindNPM, KindModel, KindGitLab, KindJWT,
		KindPEM, KindBearer, KindURL, KindEmail, KindCard, KindIBAN, KindPhone, KindByName,
	}
}

// PersonalKinds are those of personal data; all others are secrets.
func PersonalKinds() []Kind { return []Kind{KindEmail, KindCard, KindIBAN, KindPhone} }

// SecretKinds are those of secrets.
func SecretKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return slices.Contains(PersonalKinds(), k) })
}

// Marker is the text that takes the place of a finding.
func Marker(kind Kind) string { return markerPrefix + string(kind) + "]" }

func knownKind(name []byte) bool {
	switch Kind(name) {
	case KindGitHub, KindAWS, KindStripe, KindSlack, KindGoogle, KindNPM, KindModel, KindGitLab, KindJWT,
		KindPEM, KindBearer, KindURL, KindEmail, KindCard, KindIBAN, KindPhone, KindByName:
		return true
	}
	return false
}

// markerAt returns the length of the marker that b begins with, "[redacted:kind]" or
// "[redacted:kind:N]", and 0 where there is none. Only our own kinds count, so that nobody can hide
// a value by writing it in this form.
func markerAt(b []byte) int {
	if len(b) < len(markerPrefix) || string(b[:len(markerPrefix)]) != markerPrefix {
		return 0
	}
	rest := b[len(markerPrefix):min(len(b), len(markerPrefix)+32)]
	end := bytes.IndexByte(rest, ']')
	if end < 0 {
		return 0
	}
	name := rest[:end]
	if colon := bytes.IndexByte(name, ':'); colon >= 0 {
		digits := name[colon+1:]
		if len(digits) == 0 || len(digits) > 9 {
			return 0
		}
		for _, c := range digits {
			if !isDigit(c) {
				return 0
			}
		}
		name = name[:colon]
	}
	if !knownKind(name) {
		return 0
	}
	return len(markerPrefix) + end + 1
}

func isMarker(b []byte) bool { return len(b) > 0 && markerAt(b) == len(b) }
