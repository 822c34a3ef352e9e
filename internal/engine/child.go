package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// maxLine bounds a line of the child's output; the rest of a longer one is cut into further lines.
const maxLine = 8 << 10

// child is one run of the engine process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	ready  Ready
	exited chan struct{} // closed when the process is gone and its output was read

	// mu covers what the goroutines of the child learn.
	mu   sync.Mutex
	err  error  // of the process
	last string // line of its output
}

// spawn starts a child and waits for its ready line.
func (s *Supervisor) spawn(ctx context.Context) (*child, error) {
	c := &child{exited: make(chan struct{})}
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), s.cfg.Command[0], s.cfg.Command[1:]...) //nolint:gosec // our own executable
	c.cmd.Env = append(childEnv(), s.cfg.Env...)
	c.cmd.Env = append(c.cmd.Env, EnvToken+"="+s.token, EnvListenFD+"=3")
	c.cmd.ExtraFiles = []*os.File{s.socket}
	c.cmd.SysProcAttr = processAttributes()
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the engine's input: %w", err)
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the engine's output: %w", err)
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("make the engine's log: %w", err)
	}
	started, lines := make(chan error, 1), make(chan string, 1)
	go c.run(context.WithoutCancel(ctx), s.cfg.Log, stdout, stderr, started, lines) // exits when the process is gone
	if err := <-started; err != nil {
		<-c.exited
		return nil, fmt.Errorf("start the engine process: %w", err)
	}
	if err := c.awaitReady(ctx, s.cfg.ReadyTimeout, lines); err != nil {
		return nil, errors.Join(err, c.stop(context.WithoutCancel(ctx), s.cfg.Log))
	}
	return c, nil
}

// run starts the process and waits for it. The thread is kept: the kernel sends the signal for the parent's death when
// the thread that started the child ends, not the process.
func (c *child) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Reader, started chan<- error, lines chan<- string) {
	runtime.LockOSThread() // never unlocked, so that the thread ends with this goroutine
	defer close(c.exited)
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	var readers sync.WaitGroup
	readers.Go(func() { // exits when the process closes its output
		first := true
		eachLine(stdout, func(line string) {
			if first {
				first = false
				lines <- line
			}
		})
		close(lines)
	})
	readers.Go(func() {
		eachLine(stderr, func(line string) {
			c.note(line)
			log.LogAttrs(ctx, slog.LevelInfo, "engine process says", slog.String("line", line))
		})
	})
	readers.Wait() // before Wait, which closes the pipes
	err = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *child) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = line
}

// failure says why the process ended, with its last words.
func (c *child) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err == nil && c.last == "":
		return errors.New("engine process ended by itself")
	case c.last == "":
		return fmt.Errorf("engine process: %w", c.err)
	case c.err == nil:
		return fmt.Errorf("engine process ended by itself: %s", c.last)
	}
	return fmt.Errorf("engine process: %w: %s", c.err, c.last)
}

func (c *child) awaitReady(ctx context.Context, limit time.Duration, lines <-chan string) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case line, ok := <-lines:
		if !ok {
			<-c.exited
			return c.failure()
		}
		if err := jsonx.Unmarshal([]byte(line), &c.ready); err != nil {
			return fmt.Errorf("the first line of the engine process is no ready line: %w", err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("engine process was not ready within %v", limit)
	case <-ctx.Done():
		return fmt.Errorf("wait for the engine process: %w", context.Cause(ctx))
	}
}

// stop ends the process in steps and waits for it; ctx is for the log only.
func (c *child) stop(ctx context.Context, log *slog.Logger) error {
	_ = c.stdin.Close() // fails only if it is closed already
	if waitFor(c.exited, stopByStdin) {
		return nil
	}
	for _, step := range []struct {
		signal os.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, stopBySIGTERM}, {syscall.SIGKILL, stopBySIGKILL}} {
		log.LogAttrs(ctx, slog.LevelWarn, "engine process does not end", slog.String("signal", step.signal.String()))
		_ = c.cmd.Process.Signal(step.signal) // fails only if the process is gone
		if waitFor(c.exited, step.limit) {
			return fmt.Errorf("engine process had to be stopped by a signal: %v", step.signal)
		}
	}
	return errors.New("engine process does not end, not even by SIGKILL")
}

func waitFor(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// eachLine calls f for each line, cut at maxLine, until the reader ends.
func eachLine(from io.Reader, f func(string)) {
	reader := bufio.NewReaderSize(from, maxLine)
	for {
		line, _, err := reader.ReadLine()
		if err != nil {
			return
		}
		f(strings.ToValidUTF8(string(line), "�"))
	}
}

// childEnv is what a process needs to run, without what the parent may hold in secret.
func childEnv() []string {
	env := []string{"TZ=UTC"} // results must not depend on where the engine runs
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "GOCOVERDIR", EnvLibrary} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
