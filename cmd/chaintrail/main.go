// Command chaintrail is the audit trail for MCP interceptor chains.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

// Exit codes, part of the command line's contract.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitTamper = 3 // evidence that what is stored was changed or lost
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCmd(streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(os.Stderr, "chaintrail:", err)
	if h, ok := errors.AsType[hinter](err); ok && h.Hint() != "" {
		fmt.Fprintln(os.Stderr, "Try:", h.Hint())
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*tamperError](err); ok {
		return exitTamper
	}
	return exitFailed
}
