package ledger

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/scrypt"
)

// ErrPassphrase is returned when a private key is encrypted and the passphrase is missing or not the right one.
var ErrPassphrase = errors.New("wrong or missing passphrase")

// lockedPrefix begins an encrypted key: then base64 of salt (16), nonce (12) and the AES-256-GCM ciphertext, whose
// additional data is the key's id. The AES key is scrypt (RFC 7914) of the passphrase, N 2^15, r 8, p 1.
const lockedPrefix = "chaintrail-scrypt-aes256gcm-v1:"

const saltSize = 16

// lock encrypts a private key; without a passphrase it stays as it is.
func lock(private, id, passphrase string) (string, error) {
	if passphrase == "" {
		return private, nil
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // does not fail: it ends the process instead
	aead, err := cipherOf(passphrase, salt)
	if err != nil {
		return "", err
	}
	data := aead.Seal(salt, nil, []byte(private), []byte(id)) //nolint:gosec // G407: this AEAD makes its own random nonce
	return lockedPrefix + base64.StdEncoding.EncodeToString(data), nil
}

// unlock is the reverse of lock; a key that is not encrypted is taken as it is.
func unlock(text, id, passphrase string) (string, error) {
	encoded, locked := strings.CutPrefix(text, lockedPrefix)
	if !locked {
		return text, nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(data) <= saltSize {
		return "", fmt.Errorf("%w: not an encrypted key; restore it from a backup", ErrKey)
	}
	if passphrase == "" {
		return "", fmt.Errorf("%w: set seal.passphrase_file or CHAINTRAIL_SEAL_PASSPHRASE", ErrPassphrase)
	}
	aead, err := cipherOf(passphrase, data[:saltSize])
	if err != nil {
		return "", err
	}
	private, err := aead.Open(nil, nil, data[saltSize:], []byte(id))
	if err != nil {
		return "", fmt.Errorf("%w, or a damaged key", ErrPassphrase)
	}
	return string(private), nil
}

func cipherOf(passphrase string, salt []byte) (cipher.AEAD, error) {
	key, err := scrypt.Key([]byte(passphrase), salt, 1<<15, 8, 1, 32)
	if err != nil {
		return nil, fmt.Errorf("key from passphrase: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key from passphrase: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}
