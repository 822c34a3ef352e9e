package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/chaintrail/chaintrail/audit/verify"
	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// trail is a real audit trail, and the engine that it lies in.
type trail struct {
	bin, dir string
	calls    int
	seed     uint64
	dsn      string // of the engine, with the database default
	engine   *harness.Proc
	conn     driver.Conn
	events   uint64
	targets  targets
}

func (t *trail) data() string { return filepath.Join(t.dir, "data") }

const trailConfig = `
gateway: {listen: '%s'}
seal: {name: audit.test, every: 300ms, events: 40, anchors: [{name: worm, type: file, path: '%s'}]}
journal: {keep: 1h}
clickhouse: {dsn: '%s'}
log: {level: warn, format: json}
`

func (t *trail) make(ctx context.Context) (err error) {
	home := filepath.Join(t.dir, "engine")
	t.engine, err = harness.Start(harness.Spec{Name: "engine", Argv: []string{t.bin, "engine", "--data", home}, LogDir: t.dir})
	if err != nil {
		return err
	}
	err = harness.WaitFor(ctx, "engine is ready", time.Minute, func() bool {
		info, err := runtime(home, "engine")
		t.dsn = info.EngineDSN
		return err == nil && t.dsn != ""
	})
	if err != nil {
		return err
	}
	if t.conn, err = clickhouse.Open(t.dsn); err != nil {
		return err
	}
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		if err := t.run(ctx, end); err != nil {
			return err
		}
	}
	out, err := t.command(ctx, nil, "keys", "public", "--data", t.data())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.dir, "keys.txt"), out, 0o600); err != nil {
		return err
	}
	return t.choose(ctx)
}

// run lets a gateway record some calls, and ends it.
func (t *trail) run(ctx context.Context, end syscall.Signal) error {
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	config := filepath.Join(t.dir, "up.yaml")
	text := fmt.Sprintf(trailConfig, address, filepath.Join(t.dir, "heads.ndjson"), t.dsn)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	up, err := harness.Start(harness.Spec{Name: "up", Argv: []string{t.bin, "up", "-c", config, "--data", t.data()}, LogDir: t.dir})
	if err != nil {
		return err
	}
	defer up.Kill()
	err = harness.WaitFor(ctx, "up is ready", time.Minute, func() bool {
		info, err := runtime(t.data(), "up")
		return err == nil && info.PID == up.PID() && harness.Dial(address)
	})
	if err != nil {
		return err
	}
	url := "http://" + address + "/demo/mcp"
	for i := range t.calls {
		args := []string{"call", url, "echo", fmt.Sprintf("text=number %d", i)}
		if i%4 == 3 {
			args = []string{"call", url, "send_mail", "to=ada@example.org", "text=my key is ghp_0123456789abcdefghijABCDEFGHIJ012345"}
		}
		if _, err := t.command(ctx, nil, args...); err != nil && i%4 != 3 { // a call that is denied fails
			return err
		}
	}
	err = harness.WaitFor(ctx, "everything is sealed and anchored", time.Minute, func() bool {
		out, err := t.command(ctx, nil, "status", "-c", config, "--data", t.data(), "-o", "json")
		return err == nil && settled(out)
	})
	if err != nil {
		return err
	}
	if end == syscall.SIGKILL {
		up.Kill()
		return nil
	}
	return up.Stop(time.Minute)
}

// settled reports whether no step of the ladder is behind.
func settled(status []byte) bool {
	text := string(status)
	return strings.Contains(text, `"lag_events": 0`) && strings.Count(text, `"lag_events": `) == strings.Count(text, `"lag_events": 0`)
}

type runtimeInfo struct {
	PID       int    `json:"pid"`
	EngineDSN string `json:"engine_dsn"`
}

func runtime(data, role string) (info runtimeInfo, err error) {
	text, err := os.ReadFile(filepath.Join(data, "run", role+".json")) //nolint:gosec // G304: our own temporary folder
	if err == nil {
		err = jsonx.Unmarshal(text, &info)
	}
	return info, err
}

// command runs chaintrail to its end.
func (t *trail) command(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.bin, args...) //nolint:gosec // G204: the binary under test
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("chaintrail %s: %w: %s", args[0], err, exit.Stderr)
	}
	return out, err
}

// verify runs the verifier on a case.
func (t *trail) verify(ctx context.Context, dir, sabotage string) (*verify.Report, error) {
	args := []string{
		"verify", "-c", filepath.Join(dir, "chaintrail.yaml"), "--data", filepath.Join(dir, "data"),
		"--key", filepath.Join(t.dir, "keys.txt"), "--at-rest", "-o", "json",
	}
	if _, err := os.Stat(filepath.Join(dir, "heads.ndjson")); err == nil {
		args = append(args, "--anchor", filepath.Join(dir, "heads.ndjson"))
	}
	out, err := t.command(ctx, []string{"CHAINTRAIL_SABOTAGE=verify-" + sabotage}, args...)
	var report verify.Report
	if jsonErr := jsonx.Unmarshal(out, &report); jsonErr != nil {
		return nil, errors.Join(err, jsonErr)
	}
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case report.Found() > 0 && (!failed || exit.ExitCode() != 3):
		return nil, fmt.Errorf("there are findings, and it ended with %w", err)
	case report.Found() == 0 && err != nil:
		return nil, err
	}
	return &report, nil
}

func (t *trail) close() error {
	var errs []error
	if t.conn != nil {
		errs = append(errs, t.conn.Close())
	}
	if t.engine != nil {
		errs = append(errs, t.engine.Stop(time.Minute))
	}
	return errors.Join(errs...)
}
