package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/internal/retry"
)

const (
	idleBound = 120 // MB
	idleTime  = 10 * time.Second
	large     = 12 << 20
	maxGrowth = 4 // times the payload
)

const upConfig = `
gateway: {listen: '%s'}
backends:
  - {name: bench, url: '%s'}
clickhouse: {library: '%s'}
`

// measureSize starts `chaintrail up` and looks at its memory, idle and while a large call passes.
func measureSize(ctx context.Context, s settings) (rows []row, err error) {
	backend, backendURL, err := s.startRole(ctx, roleBackend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Stop(stopLimit)) }()
	up, endpoint, err := s.startUp(ctx, backendURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, up.Stop(stopLimit)) }()
	retry.Sleep(ctx, idleTime)
	idle, err := memory(up.PID(), "VmRSS")
	if err != nil {
		return nil, err
	}
	rows = append(rows, atMost("size", "chaintrail up, idle for 10 s, without the engine's process: resident", megabytes(idle), idleBound, "MB"))
	for _, c := range []struct {
		name            string
		request, answer int
	}{
		{"a call of 12 MB", large, payloadBytes},
		{"an answer of 12 MB", payloadBytes, large},
	} {
		retry.Sleep(ctx, idleTime/2)
		grown, err := passLarge(ctx, up.PID(), endpoint, c.request, c.answer)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, atMost("size", c.name+" passes uncut: peak of memory grows by", float64(grown)/large, maxGrowth, "× its size"))
	}
	return rows, nil
}

func (s *settings) startUp(ctx context.Context, backend string) (up *harness.Proc, endpoint string, err error) {
	library, err := findLibrary()
	if err != nil {
		return nil, "", err
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	config := filepath.Join(s.dir, "chaintrail.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, upConfig, address, backend, library), 0o600); err != nil {
		return nil, "", err
	}
	up, err = harness.Start(harness.Spec{
		Name: "up", Argv: []string{s.bin, "up", "-c", config, "--data", filepath.Join(s.dir, "data")}, LogDir: s.dir,
	})
	if err != nil {
		return nil, "", err
	}
	err = harness.WaitFor(ctx, "chaintrail up listens", time.Minute, func() bool { return ended(up) || harness.Dial(address) })
	if err == nil && ended(up) {
		err = errors.New("chaintrail up has ended")
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "up.log")) //nolint:gosec // G304: our own temporary folder
		return nil, "", errors.Join(fmt.Errorf("%w; its log: %s", err, log), up.Stop(stopLimit))
	}
	return up, "http://" + address + "/bench/mcp", nil
}

// passLarge makes one call and returns by how many bytes the peak of resident memory rose above what
// was resident before. It waits until the consumers have had their turn too.
func passLarge(ctx context.Context, pid int, endpoint string, request, answer int) (grown int64, err error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600); err != nil {
		return 0, fmt.Errorf("reset the peak: %w", err)
	}
	before, err := memory(pid, "VmRSS")
	if err != nil {
		return 0, err
	}
	params := bytes.Replace(callParams(request), []byte(`"limit":20`), fmt.Appendf(nil, `"want":%d`, answer), 1)
	result := callResult(answer)
	head := append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), result...)
	client := &http.Client{Transport: newTransport()}
	if err := post(ctx, client, endpoint, rpcRequest(1, params), head, len(result)); err != nil {
		return 0, err
	}
	retry.Sleep(ctx, idleTime/2)
	peak, err := memory(pid, "VmHWM")
	return peak - before, err
}

// memory reads a line of /proc/<pid>/status, in bytes.
func memory(pid int, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s of process %d", name, pid)
}

func megabytes(n int64) float64 { return float64(n) / (1 << 20) }
