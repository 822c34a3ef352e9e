// Command conformance runs every suite in every mode and prints their counts as a table: the official
// MCP suite through chaintrail's gateways, and the interceptor suites through runner, transports and
// gateway. Controls have to fail. It exits non-zero on any miss.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chaintrail/chaintrail/bench/harness"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == "serve" {
		if err := serve(context.Background(), os.Args[3:], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			os.Exit(1)
		}
		return
	}
	bin := flag.String("bin", "bin/chaintrail", "chaintrail binary under test")
	flag.Parse()
	if err := run(context.Background(), *bin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

type suite struct {
	bin, self, dir string
	errs           io.Writer
	everything     *harness.Proc
	backend        string // URL of the everything-server
}

func run(ctx context.Context, bin string, out, errs io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "chaintrail-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	s := &suite{dir: dir, errs: errs}
	if s.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if err := s.startEverything(ctx); err != nil {
		return err
	}
	defer s.everything.Kill()
	var rows []row
	for _, m := range modes() {
		rows = append(rows, s.official(ctx, m))
	}
	for _, t := range suiteTests() {
		rows = append(rows, s.runTest(ctx, t)...)
	}
	rows = append(rows, s.fixturesControl(ctx))
	if missed := printTable(out, rows); missed > 0 {
		return fmt.Errorf("%d of %d missed", missed, len(rows))
	}
	return nil
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
