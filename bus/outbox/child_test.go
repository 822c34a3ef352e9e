package outbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// The environment of a child process: this test binary, which then plays a role instead of testing.
const (
	childEnv    = "OUTBOX_TEST_CHILD"
	dirEnv      = "OUTBOX_TEST_DIR"
	stepEnv     = "OUTBOX_TEST_STEP"
	sabotageEnv = "OUTBOX_TEST_SABOTAGE"
	diskEnv     = "OUTBOX_TEST_DISK"
	adoptEnv    = "OUTBOX_TEST_ADOPT"
)

const (
	childWriters = 6
	childOpen    = 5 // exchanges that the role "die" leaves open
	childShed    = 3 // exchanges that it sheds
	fileLimit    = 110 << 10
)

func child(role string) {
	ctx := context.Background()
	cfg := Config{
		Dir: os.Getenv(dirEnv), SegmentBytes: 128 << 10, MaxBytes: 1 << 30,
		Sabotage: os.Getenv(sabotageEnv),
	}
	if os.Getenv(diskEnv) != "" {
		cfg.Durability = Durabilities{Request: DurableDisk, Outcome: DurableDisk}
	}
	var err error
	switch role {
	case "write":
		err = childWrite(ctx, cfg)
	case "die":
		err = childDie(ctx, cfg)
	case "adopt":
		err = childAdopt(ctx, cfg)
	case "limit":
		err = childLimit(ctx, cfg)
	}
	if err != nil {
		say("error", err)
		os.Exit(1)
	}
}

// say tells the parent a line.
func say(words ...any) { _, _ = fmt.Fprintln(os.Stdout, words...) }

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// childWrite records for ever, and says what it was told is journaled.
func childWrite(ctx context.Context, cfg Config) error {
	o, err := Open(ctx, cfg, quiet())
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	if os.Getenv(adoptEnv) != "" {
		a := NewAdopter(AdopterConfig{Dir: cfg.Dir, Every: time.Millisecond}, func(string) *Outbox { return o }, quiet())
		all.Go(func() {
			say("error", a.Run(ctx, func(ctx context.Context, o *Orphan) error { _, err := drain(ctx, o); return err }))
		})
	}
	for range childWriters {
		all.Go(func() {
			for {
				x := uuid.NewV7()
				payload := []byte(x.String())
				if rand.IntN(20) == 0 {
					payload = append(payload, bytes.Repeat([]byte("long "), rand.IntN(60<<10))...)
				}
				for _, rec := range []*schemas.Record{request(x, payload), outcome(x)} {
					if err := o.Record(ctx, rec); err != nil {
						say("error", err)
						return
					}
					say(rec.Event.Kind, x, rec.Event.Seq, rec.Hash)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// childDie leaves open exchanges, in an earlier segment too, and an undeclared gap.
func childDie(ctx context.Context, cfg Config) error {
	cfg.OnFull = FullShed
	o, err := Open(ctx, cfg, quiet())
	if err != nil {
		return err
	}
	for i := range childOpen {
		x, finished := uuid.NewV7(), uuid.NewV7()
		for _, rec := range []*schemas.Record{request(x, bytes.Repeat([]byte("x"), i*60<<10)), request(finished, nil), outcome(finished)} {
			if err := o.Record(ctx, rec); err != nil {
				return err
			}
		}
		say("open", x)
	}
	o.cfg.MaxBytes = o.used // full from now on
	for range childShed {
		rec := request(uuid.NewV7(), nil)
		if err := o.Record(ctx, rec); err != nil || !rec.Shed {
			return fmt.Errorf("record shed: %t, %w", rec.Shed, err)
		}
	}
	die()
	return nil
}

// childAdopt adopts, and dies at the step that it is told.
func childAdopt(ctx context.Context, cfg Config) error {
	o, err := Open(ctx, cfg, quiet())
	if err != nil {
		return err
	}
	a := NewAdopter(AdopterConfig{Dir: cfg.Dir}, func(string) *Outbox { return o }, quiet())
	a.step = func(step string) {
		if step == os.Getenv(stepEnv) {
			die()
		}
	}
	_, err = a.Adopt(ctx)
	return errors.Join(err, a.Close(), o.Close(ctx))
}

// childLimit meets a full disk, in the form of a limit of the size of files, and gets over it.
func childLimit(ctx context.Context, cfg Config) error {
	cfg.SegmentBytes = 1 << 20
	o, err := Open(ctx, cfg, quiet())
	if err != nil {
		return err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fileLimit, Max: was.Max}); err != nil {
		return err
	}
	failed, small := 0, 0
	for i := range 300 {
		payload := bytes.Repeat([]byte("y"), 2<<10)
		if i%10 == 0 {
			payload = bytes.Repeat([]byte("z"), externalFrom+i) // written apart
		}
		rec := request(uuid.NewV7(), payload)
		switch err := o.Record(ctx, rec); {
		case err == nil:
			say("kept", rec.Event.Correlation.Exchange, rec.Event.Seq, rec.Hash)
			if failed > 0 {
				small++ // what still fits goes in after a failure
			}
		case errors.Is(err, ErrFull):
			failed++
			if info, err := o.file.Stat(); err != nil || info.Size() != o.segs[0].size {
				return fmt.Errorf("segment has %d bytes after a failed write, want %d: %w", info.Size(), o.segs[0].size, err)
			}
		default:
			return fmt.Errorf("record on a full disk: %w", err)
		}
	}
	if failed == 0 || small == 0 {
		return fmt.Errorf("of 300 records %d failed and %d were kept after a failure: the limit was not met", failed, small)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	rec := request(uuid.NewV7(), nil)
	if err := o.Record(ctx, rec); err != nil {
		return fmt.Errorf("record when there is room again: %w", err)
	}
	say("kept", rec.Event.Correlation.Exchange, rec.Event.Seq, rec.Hash)
	return o.Close(ctx)
}

// run starts a child; each line it prints goes to line, which returns false to have the child
// killed. It returns the error of the child's end, nil for an end by the test's or its own SIGKILL.
func run(t *testing.T, role, dir string, env []string, line func(string) bool) error {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+role, dirEnv+"="+dir), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	killed := false
	var said []string
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "error") {
			said = append(said, sc.Text())
		}
		if !line(sc.Text()) && !killed {
			killed = true
			_ = cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	if len(said) > 0 {
		return fmt.Errorf("child says: %s", strings.Join(said, "; "))
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return err
}
