package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

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

// processorTime is what processes have used of the processors, which other load on the machine
// changes far less than it changes how long something takes.
func processorTime(pids ...int) (total time.Duration, err error) {
	const tick = 10 * time.Millisecond
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The name of the program may hold anything; what follows its bracket is numbers.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 13 {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
		}
		for _, field := range fields[11:13] { // user and system
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			total += time.Duration(n) * tick
		}
	}
	return total, nil
}
