package redact

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// ErrSnapshot is returned for a snapshot that does not open: the key is another, or the bytes or
// their place were changed. Trying again does not help.
var ErrSnapshot = errors.New("snapshot does not open")

const snapshotDomain = "chaintrail/v1/snapshot"

// snapshotCipher has a key of its own for every item, so that the number of messages under one key
// of AES-GCM is one, whatever the traffic.
func snapshotCipher(key seal.Key, event uuid.UUID, of string) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte(snapshotDomain))
	mac.Write(snapshotPlace(event, of))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// snapshotPlace binds a snapshot to where it belongs.
func snapshotPlace(event uuid.UUID, of string) []byte { return append(event[:], of...) }

// sealSnapshot encrypts the true value of the item named of.
func sealSnapshot(key seal.Key, event uuid.UUID, of string, value []byte) ([]byte, error) {
	aead, err := snapshotCipher(key, event, of)
	if err != nil {
		return nil, fmt.Errorf("seal snapshot of %s: %w", of, err)
	}
	out := make([]byte, 0, len(value)+aead.Overhead())
	return aead.Seal(out, nil, value, snapshotPlace(event, of)), nil //nolint:gosec // G407: no nonce is given because this AEAD draws its own
}

// OpenSnapshot returns the true value of the item that a snapshot item names. item must be whole.
func OpenSnapshot(key seal.Key, item schemas.EntryItem) ([]byte, error) {
	h := &item.Header
	if h.Role != schemas.RoleSnapshot {
		return nil, fmt.Errorf("%w: item %s is none", ErrSnapshot, h.Name())
	}
	aead, err := snapshotCipher(key, h.Event, h.Of)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	value, err := aead.Open(nil, nil, item.Data, snapshotPlace(h.Event, h.Of))
	if err != nil {
		return nil, fmt.Errorf("%w: %s of event %s: is this consumer given the snapshot key of that writer?", ErrSnapshot, h.Of, h.Event)
	}
	return value, nil
}
