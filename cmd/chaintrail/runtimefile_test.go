package main

import (
	"os"
	"testing"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
)

// After a kill, the number in the file may be another process's, or, in a container, our own.
func TestRuntimeFileOfADeadProcessIsNotBelieved(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Data: t.TempDir()}
	find := func() *runtimeInfo {
		t.Helper()
		info, err := findRuntime(cfg, anyProcess, "up")
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	remove, err := publishRuntime(t.Context(), cfg, "up", runtimeInfo{Gateway: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if info := find(); info == nil || info.PID != os.Getpid() {
		t.Errorf("a living process is not found: %+v", info)
	}
	second, err := publishRuntime(t.Context(), cfg, "up", runtimeInfo{Gateway: "second"})
	if err != nil {
		t.Fatal(err)
	}
	second() // says nothing of the first
	if info := find(); info == nil || info.Gateway != "first" {
		t.Errorf("after a second process came and went: %+v, want the first", info)
	}
	text, err := os.ReadFile(runtimePath(cfg, "up"))
	if err != nil {
		t.Fatal(err)
	}
	remove()
	if err := os.WriteFile(runtimePath(cfg, "up"), text, 0o600); err != nil { // as a kill leaves it, with a living number
		t.Fatal(err)
	}
	if info := find(); info != nil {
		t.Errorf("a dead process is taken for a living one: %+v", info)
	}
}
