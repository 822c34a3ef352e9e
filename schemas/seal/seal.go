// Package seal holds the cryptography of a sealed event: its hash, the salted commitments to the
// open items beside it, and the pseudonyms that stand for names.
package seal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"uuid"
)

// Hash is a SHA-256 value; its text form is 64 lower-case hex digits.
type Hash [sha256.Size]byte

// String is the text form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h is unset.
func (h Hash) IsZero() bool { return h == Hash{} }

// AppendText implements encoding.TextAppender.
func (h Hash) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, h[:]), nil }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText reads 64 hex digits.
func (h *Hash) UnmarshalText(b []byte) error {
	if hex.DecodedLen(len(b)) != len(h) || len(b)%2 != 0 {
		return fmt.Errorf("hash must have %d hex digits, got %d characters", 2*len(h), len(b))
	}
	_, err := hex.Decode(h[:], b)
	return err
}

// leafPrefix is the domain separation of Merkle leaves (RFC 6962 section 2.1), so that an event's
// hash is also its leaf hash.
const leafPrefix = 0x00

// Event returns the hash of an event's sealed bytes: SHA-256(0x00 ‖ sealed).
func Event(sealed []byte) Hash {
	h := sha256.New()
	h.Write([]byte{leafPrefix})
	h.Write(sealed)
	var out Hash
	h.Sum(out[:0])
	return out
}

// Salt makes a commitment hiding; one for each open item. Its text form is base64 without padding.
type Salt [32]byte

// NewSalt returns fresh randomness. It does not fail: crypto/rand ends the process instead.
func NewSalt() Salt {
	var s Salt
	_, _ = rand.Read(s[:])
	return s
}

// AppendText implements encoding.TextAppender.
func (s Salt) AppendText(b []byte) ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(b, s[:]), nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Salt) MarshalText() ([]byte, error) { return s.AppendText(nil) }

// UnmarshalText reads base64 without padding.
func (s *Salt) UnmarshalText(b []byte) error {
	dec, err := base64.RawStdEncoding.AppendDecode(nil, b)
	if err != nil {
		return fmt.Errorf("salt: %w", err)
	}
	if len(dec) != len(s) {
		return fmt.Errorf("salt must have %d bytes, got %d", len(s), len(dec))
	}
	copy(s[:], dec)
	return nil
}

// Domain separates the uses of a commitment under one salt.
type Domain string

// The domains of commitments.
const (
	DomainTrue Domain = "chaintrail/v1/true" // the value as it was
	DomainKept Domain = "chaintrail/v1/kept" // the kept form, where it differs
)

// Commit returns SHA-256(domain ‖ 0x00 ‖ salt ‖ value). Without the salt a guessed value cannot be
// tested against it.
func Commit(d Domain, s Salt, value []byte) Hash {
	h := sha256.New()
	h.Write([]byte(d))
	h.Write([]byte{0})
	h.Write(s[:])
	h.Write(value)
	var out Hash
	h.Sum(out[:0])
	return out
}

// Pseudonym stands for a name: the first 16 bytes of HMAC-SHA-256(tenant key, domain ‖ 0x00 ‖ name)
// as 32 hex digits. Equal names of one tenant have equal pseudonyms; destroying the key unlinks them.
type Pseudonym string

// Key is a tenant's pseudonym key.
type Key [32]byte

// ErrKeySize is returned when a key does not have 32 bytes.
var ErrKeySize = errors.New("a key has 32 bytes")

// KeyFrom copies b, which must have 32 bytes.
func KeyFrom(b []byte) (Key, error) {
	var k Key
	if len(b) != len(k) {
		return k, ErrKeySize
	}
	copy(k[:], b)
	return k, nil
}

// Pseudonym returns the pseudonym of name in a domain ("principal", "session", "request", "target").
// The pseudonym of "" is "".
func (k Key) Pseudonym(domain, name string) Pseudonym {
	if name == "" {
		return ""
	}
	out := k.Digest(domain, []byte(name))
	return Pseudonym(hex.EncodeToString(out[:16]))
}

// Digest returns HMAC-SHA-256(tenant key, domain ‖ 0x00 ‖ text), for text that could be guessed from a plain hash. Equal texts
// of one tenant have equal digests; domain MUST NOT hold a zero byte.
func (k Key) Digest(domain string, text []byte) Hash {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte(domain))
	m.Write([]byte{0})
	m.Write(text)
	var out Hash
	m.Sum(out[:0])
	return out
}

// InvocationIDSize is the length of an invocation id.
const InvocationIDSize = 32

// InvocationID names one interceptor's part in an interception: the same on every try, so that it
// serves as idempotency key. 32 hex digits.
func InvocationID(interception uuid.UUID, host, interceptor, version string) string {
	return string(AppendInvocationID(make([]byte, 0, InvocationIDSize), interception, host, interceptor, version))
}

// AppendInvocationID appends an [InvocationID] to dst.
func AppendInvocationID(dst []byte, interception uuid.UUID, host, interceptor, version string) []byte {
	h := sha256.New()
	h.Write(interception[:])
	for _, s := range [...]string{host, interceptor, version} {
		h.Write([]byte{0})
		h.Write([]byte(s))
	}
	var out Hash
	h.Sum(out[:0])
	return hex.AppendEncode(dst, out[:InvocationIDSize/2])
}
