package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// runtimeInfo tells other commands of this data directory where a running process listens. It holds
// secrets, so its file has mode 0600.
type runtimeInfo struct {
	PID       int    `json:"pid"`
	Version   string `json:"version"`
	Gateway   string `json:"gateway,omitzero"`    // base URL of the HTTP front
	BusURL    string `json:"bus_url,omitzero"`    // nats://127.0.0.1:port
	BusToken  string `json:"bus_token,omitzero"`  //
	EngineDSN string `json:"engine_dsn,omitzero"` // with its token
}

func anyProcess(*runtimeInfo) bool        { return true }
func servesBus(info *runtimeInfo) bool    { return info.BusURL != "" }
func servesEngine(info *runtimeInfo) bool { return info.EngineDSN != "" }

func runtimePath(cfg config.Config, role string) string {
	return cfg.Dir("run", role+".json")
}

// publishRuntime writes the file of a role ("up", "bus", "engine") and returns its removal.
func publishRuntime(ctx context.Context, cfg config.Config, role string, info runtimeInfo) (func(), error) {
	info.PID, info.Version = os.Getpid(), version
	if err := os.MkdirAll(cfg.Dir("run"), 0o700); err != nil {
		return nil, fmt.Errorf("make runtime directory: %w", err)
	}
	data, err := jsonx.Marshal(info)
	if err != nil {
		return nil, err
	}
	path := runtimePath(cfg, role)
	// The lock says that the process lives: its number may be another one's after a restart, in a container
	// it always is.
	lock := flock.New(path + ".lock")
	wait, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	if ok, err := lock.TryLockContext(wait, lockRetry); !ok {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("lock runtime file: %w", err)
		}
		return func() {}, nil // another process of this role is known by the file already
	}
	if err := renameio.WriteFile(path, data, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write runtime file: %w", err), lock.Unlock())
	}
	return func() { _ = errors.Join(os.Remove(path), lock.Unlock()) }, nil
}

const (
	lockPatience = time.Second // whoever looks whether a process lives holds the lock for a moment
	lockRetry    = 10 * time.Millisecond
)

// lives reports whether the process that wrote a runtime file still holds its lock.
func lives(path string) bool {
	if _, err := os.Stat(path + ".lock"); err != nil {
		return false
	}
	lock := flock.New(path+".lock", flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	if free {
		_ = lock.Unlock()
	}
	return err == nil && !free
}

// findRuntime returns the file of the first role whose process still lives and has what is asked for;
// nil when there is none.
func findRuntime(cfg config.Config, has func(*runtimeInfo) bool, roles ...string) (*runtimeInfo, error) {
	for _, role := range roles {
		path := runtimePath(cfg, role)
		data, err := os.ReadFile(path) //nolint:gosec // G304: a path of our own data directory
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !lives(path) {
			continue
		}
		var info runtimeInfo
		if err := jsonx.UnmarshalStrict(data, &info); err != nil {
			return nil, fmt.Errorf("%s is damaged (%w): stop chaintrail, remove it, start again", path, err)
		}
		if has(&info) {
			return &info, nil
		}
	}
	return nil, nil //nolint:nilnil // no running process is not an error
}
