package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/internal/retry"
)

const (
	idleBound  = 120 // MB
	idleTime   = 10 * time.Second
	settleTime = 4 * time.Second
	large      = 12 << 20
	maxGrowth  = 4 // times the payload
)

const trailConfig = `
gateway: {listen: '%s'}
backends:
  - {name: bench, url: '%s'}
clickhouse: {library: '%s'}
`

// measureSize starts `chaintrail up` and looks at its memory, idle and while a large call passes: once
// through a `chaintrail gateway` beside it, which does nothing but pass and record, and once through
// `up` itself, where the consumers have the same call in the same process.
func measureSize(ctx context.Context, s settings) (rows []row, err error) {
	backend, backendURL, err := s.startRole(ctx, roleBackend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Stop(stopLimit)) }()
	up, upURL, err := s.startTrail(ctx, "up", backendURL)
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
	gateway, gatewayURL, err := s.startTrail(ctx, "gateway", backendURL)
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, gateway.Stop(stopLimit)) }()
	retry.Sleep(ctx, settleTime)
	for _, c := range []struct {
		name            string
		pid             int
		endpoint        string
		request, answer int
		bounded         bool
	}{
		{"chaintrail up, gateway and consumers in one process: a call of 12 MB", up.PID(), upURL, large, payloadBytes, false},
		{"chaintrail gateway: a call of 12 MB passes uncut, peak of memory grows by", gateway.PID(), gatewayURL, large, payloadBytes, true},
		{"chaintrail gateway: an answer of 12 MB, further", gateway.PID(), gatewayURL, payloadBytes, large, true},
	} {
		grown, err := passLarge(ctx, c.pid, c.endpoint, c.request, c.answer)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.name, err)
		}
		times := float64(grown) / large
		if c.bounded {
			rows = append(rows, atMost("size", c.name, times, maxGrowth, "× its size"))
		} else {
			rows = append(rows, beside("size", c.name, times, "× its size"))
		}
	}
	return rows, nil
}

// startTrail starts a command of chaintrail that serves clients, and waits until it listens.
func (s *settings) startTrail(ctx context.Context, command, backend string) (p *harness.Proc, endpoint string, err error) {
	library, err := findLibrary()
	if err != nil {
		return nil, "", err
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	config := filepath.Join(s.dir, command+".yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, trailConfig, address, backend, library), 0o600); err != nil {
		return nil, "", err
	}
	p, err = harness.Start(harness.Spec{
		Name: command, Argv: []string{s.bin, command, "-c", config, "--data", filepath.Join(s.dir, "data")}, LogDir: s.dir,
	})
	if err != nil {
		return nil, "", err
	}
	if err := s.waitListen(ctx, p, address); err != nil {
		return nil, "", err
	}
	return p, "http://" + address + "/bench/mcp", nil
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
	retry.Sleep(ctx, settleTime)
	peak, err := memory(pid, "VmHWM")
	return peak - before, err
}
