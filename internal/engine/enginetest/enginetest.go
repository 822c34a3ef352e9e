// Package enginetest starts a real engine for tests.
package enginetest

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// shared is the one engine of a test binary. It ends when the binary does, since its standard input is a pipe that
// then closes. No goroutine waits for it, so that checks for leaked ones see nothing of it.
var shared = sync.OnceValues(start)

// Start returns the address, for clickhouse.ParseDSN, of a database of its own on an engine that all tests of the
// binary share; the database is dropped at the end of the test. It fails the test, and never skips it, when the engine
// is missing.
func Start(tb testing.TB) (dsn string) {
	tb.Helper()
	running, err := shared()
	if err != nil {
		tb.Fatalf("the engine does not start: %v", err)
	}
	database := "test_" + strings.ToLower(rand.Text())
	if err := running.exec("CREATE DATABASE " + database); err != nil {
		tb.Fatalf("create a database for the test: %v", err)
	}
	tb.Cleanup(func() {
		if err := running.exec("DROP DATABASE " + database + " SYNC"); err != nil {
			tb.Errorf("drop the database of the test: %v", err)
		}
	})
	return fmt.Sprintf("http://chaintrail:%s@%s/%s", running.token, running.addr, database)
}

// Library returns the path of the engine's library, from the environment or from what `make engine` fetched into this
// checkout. It fails the test when the library is missing.
func Library(tb testing.TB) string {
	tb.Helper()
	path, err := library()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Child builds the engine process of this package into a folder of the test and returns its path. It takes the flags
// -data, -library and -remove.
func Child(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "chaintrail-engine")
	if err := build(path); err != nil {
		tb.Fatal(err)
	}
	return path
}

type instance struct {
	addr, token string
	input       *os.File // held open for as long as the binary runs
}

func start() (*instance, error) {
	path, err := library()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "chaintrail-enginetest-")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "chaintrail-engine")
	if err := build(program); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	running, err := launch(program, path, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return running, nil
}

// launch starts the child with files instead of pipes, which need no goroutine.
func launch(program, library, dir string) (*instance, error) {
	childInput, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = childInput.Close() }()
	output, childOutput, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, input.Close())
	}
	defer func() { _ = output.Close() }()
	log := filepath.Join(dir, "engine.log")
	childLog, err := os.Create(log) //nolint:gosec // in our own folder
	if err != nil {
		return nil, errors.Join(err, input.Close(), childOutput.Close())
	}
	defer func() { _ = childLog.Close() }()
	token := rand.Text()
	cmd := exec.Command(program, "-data", dir, "-library", library, "-remove") //nolint:gosec,noctx // our own program, which ends with this one
	cmd.Env = append(os.Environ(), "TZ=UTC", engine.EnvToken+"="+token)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childInput, childOutput, childLog
	err = cmd.Start()
	_ = childOutput.Close() // the child's end, so that its death ends the reading below
	if err != nil {
		return nil, errors.Join(err, input.Close())
	}
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		said, _ := os.ReadFile(log) //nolint:gosec // in our own folder
		return nil, errors.Join(fmt.Errorf("the engine process ended: %w: %s", cmd.Wait(), said), input.Close())
	}
	var ready engine.Ready
	if err := jsonx.Unmarshal(line, &ready); err != nil {
		return nil, errors.Join(err, input.Close())
	}
	return &instance{addr: strings.TrimPrefix(ready.URL, "http://"), token: token, input: input}, nil
}

// exec runs a statement on a connection that is closed at once: a kept one would be a goroutine.
func (i *instance) exec(sql string) error {
	request, err := http.NewRequest(http.MethodPost, "http://"+i.addr, strings.NewReader(sql)) //nolint:noctx // ends with the engine
	if err != nil {
		return err
	}
	request.Header.Set("X-ClickHouse-Key", i.token)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return nil
}

func library() (string, error) {
	if os.Getenv(engine.EnvLibrary) != "" {
		return engine.FindLibrary("", "", os.Getenv)
	}
	return engine.FindCheckoutLibrary(sourceDir())
}

func build(path string) error {
	cmd := exec.Command("go", "build", "-o", path, "./child") //nolint:gosec,noctx // our own source; the go command ends by itself
	cmd.Dir = sourceDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the engine process: %w: %s", err, out)
	}
	return nil
}

// sourceDir is where this file lies.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}
