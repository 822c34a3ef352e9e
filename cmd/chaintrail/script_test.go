package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
