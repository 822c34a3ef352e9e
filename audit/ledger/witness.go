package ledger

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// algorithmCosignature marks keys of witnesses (C2SP tlog-cosignature, cosignature/v1).
const algorithmCosignature = 0x04

// ErrKey is returned for a text that is no key.
var ErrKey = errors.New("malformed key")

// NewVerifier reads a public key as it stands in a note's verifier file, name+hash+key: that of a ledger, or that of a
// witness that cosigns heads with its time.
func NewVerifier(key string) (note.Verifier, error) {
	if v, err := note.NewVerifier(key); err == nil {
		return v, nil
	}
	name, rest, _ := strings.Cut(key, "+")
	hash16, key64, _ := strings.Cut(rest, "+")
	hash, err := strconv.ParseUint(hash16, 16, 32)
	if err != nil || len(hash16) != 8 || name == "" {
		return nil, fmt.Errorf("%w: it must look like name+hash+key", ErrKey)
	}
	data, err := base64.StdEncoding.DecodeString(key64)
	if err != nil || len(data) != 1+ed25519.PublicKeySize || data[0] != algorithmCosignature {
		return nil, fmt.Errorf("%w: neither an Ed25519 key of a ledger nor one of a witness", ErrKey)
	}
	if got := keyHash(name, data); got != uint32(hash) {
		return nil, fmt.Errorf("%w: its hash is %08x, not %s", ErrKey, got, hash16)
	}
	return witness{name, uint32(hash), ed25519.PublicKey(data[1:])}, nil
}

func keyHash(name string, key []byte) uint32 {
	h := sha256.New()
	h.Write([]byte(name + "\n"))
	h.Write(key)
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// witness verifies cosignatures: eight bytes of time, then a signature over time and note.
type witness struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (w witness) Name() string    { return w.name }
func (w witness) KeyHash() uint32 { return w.hash }

func (w witness) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	head := "cosignature/v1\ntime " + strconv.FormatUint(binary.BigEndian.Uint64(sig), 10) + "\n"
	return ed25519.Verify(w.key, append([]byte(head), msg...), sig[8:])
}
