//go:build !linux

package outbox

import (
	"errors"
	"os"
)

// datasync puts a file's bytes and size on the disk.
func datasync(f *os.File) error { return f.Sync() }

func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }
