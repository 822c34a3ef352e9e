package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/chaintrail/chaintrail/internal/engine/chdb"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// errParentGone is why Serve ended when its standard input did.
var errParentGone = errors.New("the parent process is gone")

// Serve runs the engine on a data directory and answers ClickHouse's HTTP interface until ctx is done or the parent is
// gone; both are a normal end and return nil. It then waits up to ten seconds for running statements and kills the rest.
//
// A process can serve one directory only, and only once: the engine cannot be unloaded. So Serve belongs in a process
// of its own, which the caller ends afterwards. It returns [ErrLocked], [ErrNoToken] or the reason of a failed start.
// When Stdin is a pipe that never ends, the goroutine that reads it stays behind.
func Serve(ctx context.Context, config ServeConfig) error {
	cfg := config.withDefaults()
	if cfg.Listener != nil {
		defer func() { _ = cfg.Listener.Close() }()
	}
	if cfg.Token == "" {
		return ErrNoToken
	}
	unlock, err := lockDir(ctx, cfg.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	store, err := openStore(cfg)
	if err != nil {
		return err
	}
	defer store.close()
	if cfg.Listener == nil {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen for the engine's clients: %w", err)
		}
		cfg.Listener = listener
		defer func() { _ = listener.Close() }()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if cfg.Stdin != nil {
		go watchParent(cfg.Stdin, func() { cancel(errParentGone) }) // exits when the input ends
	}
	return serveHTTP(ctx, cfg, store)
}

func serveHTTP(ctx context.Context, cfg ServeConfig, store *store) error {
	statements, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	server := &http.Server{
		Handler:           newHandler(cfg, store),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       10 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return statements },
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),
	}
	group := new(errgroup.Group)
	failed := make(chan struct{})
	group.Go(func() error { // exits when the server is shut down below
		defer close(failed)
		if err := server.Serve(cfg.Listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the engine's clients: %w", err)
		}
		return nil
	})
	err := announce(cfg, store.version)
	if err == nil {
		cfg.Log.LogAttrs(ctx, slog.LevelInfo, "engine is ready", slog.String("version", store.version), slog.String("addr", cfg.Listener.Addr().String()))
		select {
		case <-ctx.Done():
		case <-failed:
		}
	}
	cfg.Log.LogAttrs(ctx, slog.LevelInfo, "engine ends", slog.Any("cause", context.Cause(ctx)))
	drain, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer stop()
	if server.Shutdown(drain) != nil {
		kill()
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer stop()
		err = errors.Join(err, server.Shutdown(last))
	}
	return errors.Join(err, group.Wait())
}

// announce tells the parent, in one write, where the engine answers.
func announce(cfg ServeConfig, version string) error {
	if cfg.Ready == nil {
		return nil
	}
	line, err := jsonx.Marshal(Ready{URL: "http://" + cfg.Listener.Addr().String(), Version: version})
	if err != nil {
		return fmt.Errorf("encode the ready line: %w", err)
	}
	if _, err := cfg.Ready.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the ready line: %w", err)
	}
	return nil
}

func watchParent(stdin io.Reader, gone func()) {
	_, _ = io.Copy(io.Discard, stdin) // an error is an end, too
	gone()
}

// lockDir creates the data directory and locks it. The lock is the kernel's, so that it ends with the process.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	if dir == "" {
		return nil, errors.New("the engine needs a data directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the engine's data directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "engine.lock"), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	locked, err := lock.TryLockContext(ctx, 50*time.Millisecond)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	return func() { _ = lock.Unlock() }, nil
}

// openLibrary is apart so that a broken library is told from a broken directory.
func openLibrary(path string) (*chdb.Library, error) {
	if path == "" {
		return nil, fmt.Errorf("%w (run: make engine)", ErrLibraryMissing)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w: %w (run: make engine)", ErrLibraryMissing, err)
	}
	return chdb.Load(path)
}
