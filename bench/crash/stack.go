package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// stack is chaintrail as four separate processes on one data directory.
type stack struct {
	bin, dir, data, config string
	endpoint               string
	sabotage               string
	listen                 map[string]string // role → loopback address
	procs                  map[string]*harness.Proc
}

// roles in the order of their start.
func roles() []string { return []string{"engine", "bus", "consume", "gateway"} }

const configText = `
gateway: {listen: '%[1]s', refresh: 2s}
journal: {segment_bytes: 1MiB, max_bytes: 1GiB, keep: 1h}
seal: {every: 500ms}
bus: {listen: '%[2]s'}
backends:
  - {name: crash, url: '%[3]s'}
interceptors:
  - {name: checks, command: ['%[4]s', interceptors], timeout: 5s}
policy:
  - {keep: full}
log: {level: info, format: json}
`

func newStack(dir string, o options, backendURL string) (*stack, error) {
	s := &stack{
		bin: o.bin, dir: dir, data: filepath.Join(dir, "data"), config: filepath.Join(dir, "chaintrail.yaml"),
		sabotage: o.sabotage, listen: map[string]string{}, procs: map[string]*harness.Proc{},
	}
	for _, role := range []string{"gateway", "bus", "engine"} {
		address, err := harness.FreeAddress()
		if err != nil {
			return nil, err
		}
		s.listen[role] = address
	}
	s.endpoint = "http://" + s.listen["gateway"] + "/crash/mcp"
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(configText, s.listen["gateway"], s.listen["bus"], backendURL, self)
	return s, os.WriteFile(s.config, []byte(text), 0o600)
}

func (s *stack) spawn(role string) error {
	argv := []string{s.bin, role, "-c", s.config, "--data", s.data}
	if role == "engine" {
		argv = append(argv, "--listen", s.listen["engine"])
	}
	var env []string
	if s.sabotage != "" {
		env = append(env, "CHAINTRAIL_SABOTAGE="+s.sabotage)
	}
	p, err := harness.Start(harness.Spec{Name: role, Argv: argv, LogDir: s.dir, Env: env})
	if err != nil {
		return err
	}
	s.procs[role] = p
	return nil
}

func (s *stack) start(ctx context.Context) error {
	for _, role := range roles() {
		if err := s.spawn(role); err != nil {
			return err
		}
		if err := s.ready(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) ready(ctx context.Context, role string) error {
	err := harness.WaitFor(ctx, role+" is ready", 60*time.Second, func() bool {
		if address, ok := s.listen[role]; ok && !harness.Dial(address) {
			return false
		}
		_, err := s.runtime(role)
		return err == nil
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, role+".log")) //nolint:gosec // G304: our own temporary folder
		return fmt.Errorf("%w; its log ends with:\n%s", err, tail(log, 4000))
	}
	return nil
}

type runtimeInfo struct {
	PID       int    `json:"pid"`
	EngineDSN string `json:"engine_dsn"`
}

// runtime reads the runtime file of the process that runs now.
func (s *stack) runtime(role string) (runtimeInfo, error) {
	var info runtimeInfo
	text, err := os.ReadFile(filepath.Join(s.data, "run", role+".json")) //nolint:gosec // G304: our own temporary folder
	if err != nil {
		return info, err
	}
	if err := jsonx.Unmarshal(text, &info); err != nil {
		return info, err
	}
	if info.PID != s.procs[role].PID() {
		return info, errors.New("left by an earlier process")
	}
	return info, nil
}

// victims are the roles to kill: all, or those whose death the missing guard is there for.
func victims(sabotage string) []string {
	switch sabotage {
	case "double-insert":
		return []string{"consume", "engine"}
	case "skip-adopt":
		return []string{"gateway"}
	}
	return roles()
}

// rounds kills one process per round and starts it again; it returns the kills by role.
func (s *stack) rounds(ctx context.Context, n int, rnd *rand.Rand) (map[string]int, error) {
	faults := map[string]int{}
	order := victims(s.sabotage)
	for i := range n {
		wait(ctx, time.Duration(300+rnd.IntN(1200))*time.Millisecond)
		if ctx.Err() != nil {
			return faults, ctx.Err()
		}
		// Every role gets its turn, in an order and at moments that only the seed knows.
		if i%len(order) == 0 {
			rnd.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		}
		role := order[i%len(order)]
		s.procs[role].Kill()
		faults[role]++
		wait(ctx, time.Duration(rnd.IntN(400))*time.Millisecond)
		if err := s.spawn(role); err != nil {
			return faults, err
		}
		if err := s.ready(ctx, role); err != nil {
			return faults, err
		}
	}
	wait(ctx, time.Second)
	return faults, nil
}

func (s *stack) stop() {
	for _, role := range slices.Backward(roles()) {
		if p := s.procs[role]; p != nil {
			if err := p.Stop(20 * time.Second); err != nil {
				fmt.Fprintln(os.Stderr, "crash:", err)
			}
		}
	}
}

func tail(text []byte, n int) []byte {
	if len(text) > n {
		return text[len(text)-n:]
	}
	return text
}
