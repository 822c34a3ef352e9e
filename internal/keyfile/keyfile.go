// Package keyfile keeps secrets of a data directory in files that only their owner may read.
package keyfile

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrPermissions is returned when others may read a key file; chmod 600 is the way out.
var ErrPermissions = errors.New("key file is readable by others")

// LoadOrCreate returns the secret of size bytes kept at path as base64, made fresh when there is
// none. Two processes may call it at once: both get the same secret.
func LoadOrCreate(path string, size int) ([]byte, error) {
	secret, err := Load(path, size)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	fresh := make([]byte, size)
	_, _ = rand.Read(fresh) // does not fail: it ends the process instead
	if err := Create(path, base64.StdEncoding.EncodeToString(fresh)+"\n"); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Load(path, size)
}

// Create makes the file appear with all of its content or not at all, and never over another: that is fs.ErrExist.
func Create(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make key directory: %w", err)
	}
	if err := createWhole(path, text); err != nil {
		return fmt.Errorf("make key file: %w", err)
	}
	return nil
}

func createWhole(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // best effort: the link below is what counts
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

// Load returns the secret of size bytes kept at path.
func Load(path string, size int) ([]byte, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(secret) != size {
		return nil, fmt.Errorf("%s does not hold a key of %d bytes in base64; restore it from a backup", path, size)
	}
	return secret, nil
}

// Read returns the text kept at path, without white space around it.
func Read(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s: %w (mode %04o): run chmod 600 on it", path, ErrPermissions, info.Mode().Perm())
	}
	text, err := os.ReadFile(path) //nolint:gosec // G304: a path of our own data directory
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
