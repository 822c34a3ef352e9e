package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
	"github.com/chaintrail/chaintrail/internal/retry"
)

// Variables that turn the test binary into the engine process.
const (
	envChildData    = "CHAINTRAIL_TEST_ENGINE_DATA"
	envChildLibrary = "CHAINTRAIL_TEST_ENGINE_LIBRARY"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envChildData); dir != "" {
		os.Exit(childMain(dir))
	}
	goleak.VerifyTestMain(m)
}

func childMain(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := engine.ServeConfig{
		DataDir: dir, Library: os.Getenv(envChildLibrary), Stdin: os.Stdin, Ready: os.Stdout,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	err := cfg.FromEnv(os.Getenv)
	if err == nil {
		err = engine.Serve(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// supervisor makes one whose child is this test binary, on a data directory.
func supervisor(t *testing.T, dir string) *engine.Supervisor {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.NewSupervisor(engine.SupervisorConfig{
		Command: []string{executable},
		Env:     []string{envChildData + "=" + dir, envChildLibrary + "=" + enginetest.Library(t)},
		Restart: retry.Policy{Initial: 10 * time.Millisecond},
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts a supervisor that is closed with the test.
func start(t *testing.T, dir string) (*engine.Supervisor, string) {
	t.Helper()
	s := supervisor(t, dir)
	dsn, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, string(dsn)
}

// open connects the driver; change may alter its options.
func open(t *testing.T, dsn string, change ...func(*clickhouse.Options)) clickhouse.Conn {
	t.Helper()
	options, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(options)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func run(t *testing.T, conn clickhouse.Conn, sql string) {
	t.Helper()
	if err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t *testing.T, conn clickhouse.Conn, sql string, args ...any) uint64 {
	t.Helper()
	var n uint64
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// codeOf returns ClickHouse's number of an error, 0 if it has none.
func codeOf(err error) int32 {
	if e, ok := errorsAsException(err); ok {
		return e.Code
	}
	return 0
}
