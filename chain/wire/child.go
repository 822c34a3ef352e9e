package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// ChildConfig says how to start a stdio server.
type ChildConfig struct {
	Command []string // program and arguments; required
	Dir     string   // working directory; empty means ours
	Env     []string // whole environment as NAME=value; nil means ours
	Line    LineOptions
	// Stop deadlines: after stdin was closed, and after SIGTERM. 0 means 2 s each.
	CloseWait, TermWait time.Duration
	// Stderr takes the child's standard error line by line; nil logs it at level info.
	Stderr func(line string)
	Logger *slog.Logger // nil means slog.Default
}

// maxStderrLine bounds one line of a child's standard error; the rest of the line is dropped.
const maxStderrLine = 4 << 10

// drainWait bounds how long what an ended child left in its pipes may take to be read.
const drainWait = time.Second

// Child is a running stdio server in a process group of its own.
type Child struct {
	*LineConn
	cmd    *exec.Cmd
	cfg    ChildConfig
	errOut *os.File
	stderr sync.WaitGroup
	exited chan struct{} // closed when the process was waited for
	err    error         // of Wait; read after exited
	stop   sync.Once
}

// StartChild starts the command. The caller MUST call Stop, also after the connection ended.
func StartChild(cfg ChildConfig) (*Child, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("start child: no command")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.CloseWait <= 0 {
		cfg.CloseWait = 2 * time.Second
	}
	if cfg.TermWait <= 0 {
		cfg.TermWait = 2 * time.Second
	}
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...) //nolint:gosec,noctx // the command is configuration; Stop ends it in order
	cmd.Dir, cmd.Env = cfg.Dir, cfg.Env
	cmd.SysProcAttr = childAttributes()
	pipes, err := openPipes(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Command[0], err)
	}
	c := &Child{cmd: cmd, cfg: cfg, errOut: pipes.err, exited: make(chan struct{})}
	started := make(chan error, 1)
	go c.run(started) // exits with the process; Stop waits for it
	if err := <-started; err != nil {
		pipes.closeAll()
		return nil, fmt.Errorf("start %s: %w", cfg.Command[0], err)
	}
	pipes.closeTheirs()
	c.LineConn = NewLineConn(pipes.out, pipes.in, &cfg.Line)
	// Exits when every process that holds the child's stderr has ended; Stop kills the group.
	c.stderr.Go(c.copyStderr)
	return c, nil
}

// run starts the process and waits for it. The thread is kept: the kernel sends the signal for the parent's death when the
// thread that started the child ends, not the process.
func (c *Child) run(started chan<- error) {
	runtime.LockOSThread() // never unlocked, so that the thread ends with this goroutine
	defer close(c.exited)
	err := c.cmd.Start()
	started <- err
	if err == nil {
		c.err = c.cmd.Wait()
	}
}

// PID is the process id of the child, and of its process group.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Stop ends the child in order: stdin is closed, then SIGTERM, then SIGKILL to its group, each after
// its deadline or at once when ctx is done. It returns when the process has ended and nothing of its
// group is left; answers the child writes before it ends can still be read until then. The error is
// the child's exit error, unless it ended by our signal.
func (c *Child) Stop(ctx context.Context) error {
	c.stop.Do(func() {
		_ = c.CloseWrite() // a broken pipe here only says that the child ended before
		signalled := false
		if !waitFor(ctx, c.exited, c.cfg.CloseWait) {
			signalled = true
			signalGroup(c.PID(), syscall.SIGTERM)
			waitFor(ctx, c.exited, c.cfg.TermWait)
		}
		signalGroup(c.PID(), syscall.SIGKILL) // also what npx and shells left behind
		<-c.exited
		// A process that left the group may hold the pipes open: do not wait for it for ever.
		_ = c.errOut.SetReadDeadline(time.Now().Add(drainWait))
		c.stderr.Wait()
		if c.reading.Load() {
			waitFor(context.WithoutCancel(ctx), c.ended, drainWait)
		}
		_ = c.Close()
		if signalled {
			c.err = nil
		}
	})
	<-c.exited
	return c.err
}

// waitFor tells whether done was closed before the limit and before ctx ended.
func waitFor(ctx context.Context, done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (c *Child) copyStderr() {
	defer func() { _ = c.errOut.Close() }()
	in := bufio.NewReaderSize(c.errOut, maxStderrLine)
	for {
		line, err := in.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // keep the start, drop the rest of the line
			c.logStderr(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			line = nil
		}
		c.logStderr(line)
		if err != nil {
			return
		}
	}
}

func (c *Child) logStderr(line []byte) {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	if len(line) == 0 {
		return
	}
	if c.cfg.Stderr != nil {
		c.cfg.Stderr(string(line))
		return
	}
	c.cfg.Logger.Info("server stderr", slog.String("command", c.cfg.Command[0]), slog.String("line", string(line)))
}

// childPipes are our ends (in, out, err) and theirs. os/exec's own pipes are closed by Wait, which
// would cut off answers that are still unread.
type childPipes struct {
	in, out, err *os.File
	theirs       []*os.File
}

func openPipes(cmd *exec.Cmd) (*childPipes, error) {
	p := &childPipes{}
	var err error
	open := func(ours **os.File, weWrite bool) *os.File {
		if err != nil {
			return nil
		}
		var r, w *os.File
		if r, w, err = os.Pipe(); err != nil {
			return nil
		}
		if weWrite {
			r, w = w, r
		}
		*ours, p.theirs = r, append(p.theirs, w)
		return w
	}
	cmdIn, cmdOut, cmdErr := open(&p.in, true), open(&p.out, false), open(&p.err, false)
	if err != nil {
		p.closeAll()
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cmdIn, cmdOut, cmdErr
	return p, nil
}

func (p *childPipes) closeTheirs() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
}

func (p *childPipes) closeAll() {
	p.closeTheirs()
	for _, f := range []*os.File{p.in, p.out, p.err} {
		if f != nil {
			_ = f.Close()
		}
	}
}
