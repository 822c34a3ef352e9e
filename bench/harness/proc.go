// Package harness starts, watches and ends the processes of the proof harnesses.
package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Proc is one child process in a process group of its own.
type Proc struct {
	Name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *os.File
}

// Spec says how to start a process.
type Spec struct {
	Name   string
	Argv   []string
	Env    []string // beside the caller's environment
	Dir    string
	LogDir string // stdout and stderr go to <LogDir>/<Name>.log, appended
}

// Start starts a process.
func Start(s Spec) (*Proc, error) {
	log, err := os.OpenFile(filepath.Join(s.LogDir, s.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...) //nolint:gosec,noctx // G204: our own binaries; ended by id, see Kill
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.Name, err), log.Close())
	}
	p := &Proc{Name: s.Name, cmd: cmd, done: make(chan struct{}), log: log}
	go func() { // exits when the process has ended
		_ = cmd.Wait()
		_ = log.Close()
		close(p.done)
	}()
	return p, nil
}

// PID is the process id.
func (p *Proc) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Kill sends SIGKILL to the process alone and waits for its end.
func (p *Proc) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop sends SIGTERM, and SIGKILL to the whole group when the process is still there after limit.
func (p *Proc) Stop(limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("%s did not stop within %s", p.Name, limit)
	}
}

// WaitFor polls cond until it is true; the error says what was waited for.
func WaitFor(ctx context.Context, what string, limit time.Duration, cond func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s", what, limit)
		case <-tick.C:
		}
	}
	return nil
}

// FreeAddress returns a loopback address that was free a moment ago.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Dial reports whether something listens at address.
func Dial(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second) //nolint:noctx // bounded
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
