package engine_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// TestKilledChildKeepsAnsweredRows kills the engine again and again under inserts and counts what was answered.
func TestKilledChildKeepsAnsweredRows(t *testing.T) {
	t.Parallel()
	s := supervisor(t, t.TempDir())
	dsn, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	conn := open(t, string(dsn))
	run(t, conn, "CREATE TABLE kept (batch UInt64, n UInt64) ENGINE = MergeTree ORDER BY batch SETTINGS non_replicated_deduplication_window = 1000")
	const batches, size, kills = 60, 500, 3
	killed := make(chan struct{})
	progress := make(chan struct{}, batches)
	go func() { // exits after the last batch or the last kill
		defer close(killed)
		for range kills {
			for range batches / (kills + 1) {
				if _, ok := <-progress; !ok {
					return
				}
			}
			if pid := s.PID(); pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}()
	failures := 0
	for n := range uint64(batches) {
		// The outcome of a failed insert is unknown, so that it is repeated with the same token.
		for sendKept(t.Context(), conn, n, size) != nil {
			if failures++; failures > 500 {
				t.Fatal("the engine does not come back")
			}
		}
		progress <- struct{}{}
	}
	close(progress)
	<-killed
	if failures == 0 {
		t.Error("no insert failed although the engine was killed under them")
	}
	if got := count(t, conn, "SELECT count() FROM kept"); got != batches*size {
		t.Errorf("%d rows after %d kills, want %d", got, kills, batches*size)
	}
	if got := count(t, conn, "SELECT uniqExact(batch, n) FROM kept"); got != batches*size {
		t.Errorf("%d different rows, want %d", got, batches*size)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := syscall.Kill(s.PID(), 0); s.PID() != 0 && err == nil {
		t.Error("the child outlives Run")
	}
}

func sendKept(ctx context.Context, conn clickhouse.Conn, number uint64, size int) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"insert_deduplication_token": number}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO kept")
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	for n := range uint64(size) {
		if err := batch.Append(number, n); err != nil {
			return err
		}
	}
	return batch.Send()
}

func TestRestartKeepsAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, dsn := start(t, dir)
	again, err := s.Start(t.Context())
	if err != nil || string(again) != dsn {
		t.Errorf("a second Start gave %q and %v, want the first address", again.Redacted(), err)
	}
	if strings.Contains(again.Redacted(), strings.Split(strings.Split(dsn, ":")[2], "@")[0]) {
		t.Error("the redacted address holds the token")
	}
	run(t, open(t, dsn), "CREATE DATABASE stays")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, dsn = start(t, dir)
	if got := count(t, open(t, dsn), "SELECT count() FROM system.databases WHERE name = 'stays'"); got != 1 {
		t.Error("a database is gone after an ordered stop")
	}
}

func TestStartNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	used := t.TempDir()
	start(t, used)
	garbage := filepath.Join(t.TempDir(), "libchdb.so")
	if err := os.WriteFile(garbage, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	library := enginetest.Library(t)
	for _, test := range []struct {
		name, want string
		command    []string
		env        []string
		limit      time.Duration
	}{
		{"locked directory", engine.ErrLocked.Error(), []string{executable}, []string{envChildData + "=" + used, envChildLibrary + "=" + library}, 0},
		{"missing library", "make engine", []string{executable}, []string{envChildData + "=" + t.TempDir(), envChildLibrary + "=/nowhere/libchdb.so"}, 0},
		{"broken library", "load engine library", []string{executable}, []string{envChildData + "=" + t.TempDir(), envChildLibrary + "=" + garbage}, 0},
		{"directory is a file", "create the engine's data directory", []string{executable}, []string{envChildData + "=" + file, envChildLibrary + "=" + library}, 0},
		{"missing program", "no such file", []string{"/nowhere/chaintrail"}, nil, 0},
		{"silent program", "was not ready within 50ms", []string{"cat"}, nil, 50 * time.Millisecond},
		{"program of another kind", "is no ready line", []string{"echo", "hello"}, nil, 0},
		{"program that ends", "ended", []string{"true"}, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, err := engine.NewSupervisor(engine.SupervisorConfig{Command: test.command, Env: test.env, ReadyTimeout: test.limit, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start gave %v, want an error with %q", err, test.want)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close after a failed start: %v", err)
			}
		})
	}
}

// TestChildEndsWithItsInput runs the child by hand: with its parent, its standard input ends.
func TestChildEndsWithItsInput(t *testing.T) {
	t.Parallel()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), envChildData+"="+t.TempDir(), envChildLibrary+"="+enginetest.Library(t), engine.EnvToken+"=t")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready engine.Ready
	if err := jsonx.Unmarshal(line, &ready); err != nil || !strings.HasPrefix(ready.URL, "http://127.0.0.1:") || ready.Version == "" {
		t.Errorf("ready line is %q (%v)", line, err)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if more, err := lines.ReadString('\n'); more != "" {
		t.Errorf("more than one line on standard output: %q (%v)", more, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child ended with %v, want success", err)
	}
}

func TestRunStopsAStatementThatGoesOn(t *testing.T) {
	t.Parallel()
	s, dsn := start(t, t.TempDir())
	conn := open(t, dsn)
	done := make(chan error, 1)
	go func() {
		done <- conn.Exec(context.WithoutCancel(t.Context()), "SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))")
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for count(t, conn, "SELECT count() FROM system.processes WHERE query LIKE '%sipHash64%'") < 2 { // the asking one is there, too
		<-tick.C
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-done; err == nil {
		t.Error("an endless statement ended well")
	}
}

func TestServeNeedsAToken(t *testing.T) {
	t.Parallel()
	err := engine.Serve(t.Context(), engine.ServeConfig{DataDir: t.TempDir()})
	if !errors.Is(err, engine.ErrNoToken) || engine.Hint(err) == "" {
		t.Errorf("Serve without a token gave %v with hint %q", err, engine.Hint(err))
	}
}
