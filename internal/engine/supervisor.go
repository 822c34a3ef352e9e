package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/internal/retry"
)

// Supervisor keeps one engine process running. The address stays the same for its whole life; while no child runs,
// connections wait in the socket's queue.
//
// Call Start, use the address, and have Run going until the end; Run stops the child in order. Whoever calls Start but
// not Run calls Close.
type Supervisor struct {
	cfg SupervisorConfig

	// mu covers what Start makes.
	mu       sync.Mutex
	listener *net.TCPListener
	socket   *os.File // of listener, inherited by each child
	token    string
	child    *child
}

// NewSupervisor checks the configuration; nothing is started yet.
func NewSupervisor(cfg SupervisorConfig) (*Supervisor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.ReadyTimeout <= 0 {
		cfg.ReadyTimeout = DefaultReadyTimeout
	}
	return &Supervisor{cfg: cfg}, nil
}

// Start starts the first child and waits until it answers. Its failure is not repeated: a missing library or a locked
// directory does not heal. A second call returns the same address. The child does not end with ctx.
func (s *Supervisor) Start(ctx context.Context) (DSN, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		return s.dsn(), nil
	}
	if s.listener == nil {
		if err := s.listen(ctx); err != nil {
			return "", err
		}
	}
	child, err := s.spawn(ctx)
	if err != nil {
		return "", errors.Join(err, s.closeSocket())
	}
	s.child = child
	return s.dsn(), nil
}

// Run starts the engine if Start was not called, starts it again whenever it dies, and stops it when ctx is done. It
// returns nil after an ordered stop, an error when the child had to be killed or could not be started.
func (s *Supervisor) Run(ctx context.Context) error {
	if _, err := s.Start(ctx); err != nil {
		return err
	}
	for {
		current := s.current()
		select {
		case <-ctx.Done():
			return s.Close() //nolint:contextcheck // the stop goes on after ctx is done
		case <-current.exited:
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelError, "engine process died", slog.Any("error", current.failure()))
		policy := s.cfg.Restart
		policy.Notify = retry.Seldom(func(err error, tries int, pause time.Duration) {
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "engine process does not start", slog.Any("error", err), slog.Int("tries", tries), slog.Duration("pause", pause))
		})
		err := retry.Do(ctx, policy, func(ctx context.Context) error {
			next, err := s.spawn(ctx)
			if err != nil {
				return err
			}
			s.replace(next)
			return nil
		})
		if err != nil {
			closeErr := s.Close() //nolint:contextcheck // the stop goes on after ctx is done
			if ctx.Err() != nil {
				return closeErr
			}
			return errors.Join(err, closeErr)
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "engine process runs again")
	}
}

// Close stops the child: it closes its standard input, and sends SIGTERM and SIGKILL if that does not help. It waits
// until the child is gone. A second Close does nothing.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.child != nil {
		err = s.child.stop(context.Background(), s.cfg.Log)
		s.child = nil
	}
	return errors.Join(err, s.closeSocket())
}

// PID returns the process id of the child that runs, 0 if none does.
func (s *Supervisor) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return 0
	}
	return s.child.cmd.Process.Pid
}

// Version returns the engine's version as the running child named it, "" before Start.
func (s *Supervisor) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return ""
	}
	return s.child.ready.Version
}

func (s *Supervisor) current() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

func (s *Supervisor) replace(next *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child = next
}

func (s *Supervisor) dsn() DSN { return newDSN(s.listener.Addr().String(), s.token) }

// listen opens the socket that outlives the children.
func (s *Supervisor) listen(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the engine's clients: %w", err)
	}
	tcp := listener.(*net.TCPListener) //nolint:forcetypeassert // what Listen returns for tcp4
	socket, err := tcp.File()
	if err != nil {
		return errors.Join(fmt.Errorf("duplicate the engine's socket: %w", err), tcp.Close())
	}
	s.listener, s.socket, s.token = tcp, socket, rand.Text()
	return nil
}

func (s *Supervisor) closeSocket() error {
	if s.listener == nil {
		return nil
	}
	err := errors.Join(s.socket.Close(), s.listener.Close())
	s.listener, s.socket = nil, nil
	return err
}
