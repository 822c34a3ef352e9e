package keyfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestConcurrentCallersGetOneKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys", "k")
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := LoadOrCreate(path, 32)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for i, k := range keys {
		if len(k) != 32 || !bytes.Equal(k, keys[0]) {
			t.Errorf("caller %d got another key", i)
		}
	}
}

func TestReadableByOthersIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "k")
	if _, err := LoadOrCreate(path, 32); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(path, 32); !errors.Is(err, ErrPermissions) {
		t.Errorf("got %v, want ErrPermissions", err)
	}
}

func TestDamagedKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "k")
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(path, 32); err == nil {
		t.Error("a damaged key was accepted")
	}
	if text, _ := os.ReadFile(path); string(text) != "short" {
		t.Error("a damaged key was overwritten")
	}
}
