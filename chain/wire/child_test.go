package wire_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
)

func startChild(tb testing.TB, mode string, change func(*wire.ChildConfig)) *wire.Child {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cfg := wire.ChildConfig{Command: []string{exe}, Env: append(os.Environ(), childMode+"="+mode)}
	if change != nil {
		change(&cfg)
	}
	child, err := wire.StartChild(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return child
}

func TestChildStopsInOrder(t *testing.T) {
	t.Parallel()
	child := startChild(t, "parting", nil)
	got := make(chan string, 1)
	var wg sync.WaitGroup
	wg.Go(func() { _ = child.Receive(t.Context(), func(raw []byte) { got <- string(raw) }, nil) })
	for range 3 {
		if err := child.Send(t.Context(), []byte("{}"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	wg.Wait()
	if s := <-got; !strings.Contains(s, `"lines":3`) {
		t.Errorf("the child's last words are %s, want 3 lines", s)
	}
}

func TestChildKillsItsGroup(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 8)
	child := startChild(t, "stubborn", func(cfg *wire.ChildConfig) {
		cfg.CloseWait, cfg.TermWait = 50*time.Millisecond, 50*time.Millisecond
		cfg.Stderr = func(line string) { lines <- line }
	})
	raw, err := child.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	msg, err := wire.Parse(raw, wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line != "still here" {
		t.Errorf("stderr is %q", line)
	}
	if err := child.Stop(context.Background()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	var pid int
	v, _ := wire.Member(msg.Params, "pid")
	for _, c := range v {
		pid = pid*10 + int(c-'0')
	}
	// The grandchild is reaped by whoever adopted it: it is gone or a zombie.
	if err := syscall.Kill(pid, 0); err == nil {
		stat, err := os.ReadFile("/proc/" + string(v) + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ") {
			t.Errorf("grandchild %d lives: %s", pid, stat)
		}
	}
	if _, err := child.ReadMessage(); err == nil {
		t.Error("a stopped child can be read")
	}
}

func TestChildFaults(t *testing.T) {
	t.Parallel()
	if _, err := wire.StartChild(wire.ChildConfig{}); err == nil {
		t.Error("no command was started")
	}
	if _, err := wire.StartChild(wire.ChildConfig{Command: []string{"/nonexistent/server"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("StartChild: %v, want not exist", err)
	}
	child := startChild(t, "nothing", nil)
	<-child.Exited()
	if err := child.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := child.Send(t.Context(), []byte("{}"), nil); err == nil {
		t.Error("sent to a child that ended")
	}
}
