package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const patience = 60 * time.Second

// until repeats cond until it holds or the test gives up.
func until(ts *testscript.TestScript, what string, cond func() bool) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			ts.Fatalf("%s: not within %s", what, patience)
		}
		<-tick.C
	}
}

// cmdReady waits for the runtime file of a role: ready up. It sets $GATEWAY to the gateway's URL.
func cmdReady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready ROLE")
	}
	info := readRuntime(ts, args[0])
	if info.Gateway != "" {
		ts.Setenv("GATEWAY", info.Gateway)
	}
}

func readRuntime(ts *testscript.TestScript, role string) runtimeInfo {
	var info runtimeInfo
	until(ts, role+" is ready", func() bool {
		text, err := os.ReadFile(filepath.Join(ts.Getenv("CHAINTRAIL_DATA"), "run", role+".json"))
		return err == nil && jsonx.Unmarshal(text, &info) == nil && syscall.Kill(info.PID, 0) == nil
	})
	return info
}

// cmdSignal sends a signal to the process of a role and waits for its end: signal up KILL.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	if neg || len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal ROLE KILL|TERM|INT")
	}
	pid := readRuntime(ts, args[0]).PID
	ts.Check(syscall.Kill(pid, signals[args[1]]))
	until(ts, args[0]+" has ended", func() bool { return ended(pid) })
}

// cmdReload has the process of a role read its configuration again: reload gateway.
func cmdReload(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: reload ROLE")
	}
	ts.Check(syscall.Kill(readRuntime(ts, args[0]).PID, syscall.SIGHUP))
}

// ended also counts a process that its parent has not waited for yet.
func ended(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || regexp.MustCompile(`\) Z `).Match(text)
}

// cmdEventually runs a command until its output matches: eventually REGEXP COMMAND ARGS…
func cmdEventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP COMMAND ARGS…")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	until(ts, "output matches "+args[0], func() bool {
		_ = ts.Exec(args[1], args[2:]...)
		return want.MatchString(ts.ReadFile("stdout"))
	})
}

// cmdField sets a variable to the first value of a member in the last JSON output: field ID id.
func cmdField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: field VARIABLE MEMBER")
	}
	m := regexp.MustCompile(`"` + regexp.QuoteMeta(args[1]) + `": "([^"]+)"`).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("the output has no member %q", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// cmdReadmeProgram writes the README's program to a file, beside a go.mod that finds this checkout, and
// refuses one that has grown: readme-program DIR/main.go.
func cmdReadmeProgram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: readme-program FILE")
	}
	root, err := filepath.Abs("../..")
	ts.Check(err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	ts.Check(err)
	m := regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n").FindSubmatch(readme)
	if m == nil {
		ts.Fatalf("the README has no program")
	}
	lines := 0
	for line := range strings.Lines(string(m[1])) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines >= 20 {
		ts.Fatalf("the program has %d lines; it is meant to have fewer than 20", lines)
	}
	file := ts.MkAbs(args[0])
	dir := filepath.Dir(file)
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(os.WriteFile(file, m[1], 0o600))
	module := "module example.org/guard\n\ngo 1.27.0\n\nrequire github.com/chaintrail/chaintrail v0.0.0\n\n" +
		"replace github.com/chaintrail/chaintrail => " + root + "\n"
	ts.Check(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600))
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
}
