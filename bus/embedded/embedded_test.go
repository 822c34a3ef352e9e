package embedded_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func start(t *testing.T, cfg embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), cfg, discard())
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return s
}

func TestWithoutListener(t *testing.T) {
	t.Parallel()
	s := start(t, embedded.DefaultConfig(t.TempDir()))
	if s.URL() != "" || s.Token() != "" {
		t.Errorf("it listens at %q", s.URL())
	}
	nc, err := bus.Connect(bus.Config{InProcess: s}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := bus.WaitReady(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, bus.DefaultStreamConfig()); err != nil {
		t.Errorf("make streams: %v", err)
	}
}

func TestListenerWantsToken(t *testing.T) {
	t.Parallel()
	cfg := embedded.DefaultConfig(t.TempDir())
	cfg.Listen, cfg.TokenFile = "127.0.0.1:0", filepath.Join(t.TempDir(), "sub", "token")
	s := start(t, cfg)
	if !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") {
		t.Fatalf("it listens at %q", s.URL())
	}
	if info, err := os.Stat(cfg.TokenFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the token file has mode %v (%v), want 0600", info.Mode(), err)
	}
	nc, err := bus.Connect(bus.Config{URL: s.URL(), TokenFile: cfg.TokenFile}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := bus.WaitReady(t.Context(), nc); err != nil {
		t.Errorf("with the token: %v", err)
	}
	bad, err := bus.Connect(bus.Config{URL: s.URL(), Token: "guessed", ReconnectWait: 5 * time.Millisecond}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := bus.WaitReady(ctx, bad); err == nil {
		t.Error("a wrong token lets in")
	}
	inside, err := bus.Connect(bus.Config{InProcess: s, Token: s.Token()}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	if _, err := bus.WaitReady(t.Context(), inside); err != nil {
		t.Errorf("from inside: %v", err)
	}
}

func TestDirectoryIsGuarded(t *testing.T) {
	t.Parallel()
	cfg := embedded.DefaultConfig(t.TempDir())
	first := start(t, cfg)
	if _, err := embedded.Start(t.Context(), cfg, discard()); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("a second server on the directory: %v, want %v", err, embedded.ErrInUse)
	}
	if err := first.Shutdown(); err != nil {
		t.Fatal(err)
	}
	_ = start(t, cfg)
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(t.Context(), embedded.DefaultConfig(t.TempDir()), discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, []byte("a token long enough for this\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, change := range map[string]func(*embedded.Config){
		"no directory":               func(c *embedded.Config) { c.Dir = "" },
		"listener without token":     func(c *embedded.Config) { c.Listen = "127.0.0.1:0" },
		"token that others can read": func(c *embedded.Config) { c.Listen, c.TokenFile = "127.0.0.1:0", open },
		"token that is too short":    func(c *embedded.Config) { c.Listen, c.TokenFile = "127.0.0.1:0", short },
		"address that is none":       func(c *embedded.Config) { c.Listen, c.TokenFile = "nowhere", short },
		"port that is taken": func(c *embedded.Config) {
			c.Listen, c.TokenFile = taken.Addr().String(), filepath.Join(t.TempDir(), "token")
		},
		"tiny store": func(c *embedded.Config) { c.MaxStore = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := embedded.DefaultConfig(filepath.Join(t.TempDir(), "nats"))
			change(&cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			s, err := embedded.Start(ctx, cfg, discard())
			if err == nil {
				_ = s.Shutdown()
				t.Error("the settings are taken")
			}
		})
	}
}
