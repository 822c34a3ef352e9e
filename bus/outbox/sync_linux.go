package outbox

import (
	"fmt"
	"os"
	"syscall"
)

// datasync puts a file's bytes and size on the disk.
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return fmt.Errorf("fdatasync %s: %w", f.Name(), err)
		}
	}
}

// freeBytes is what an unprivileged process may still write below dir.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("ask for free bytes: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil //nolint:gosec // far below 2^63
}
