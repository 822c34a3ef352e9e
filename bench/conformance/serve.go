package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// Interceptors that this program serves over stdio, by what comes behind "serve".
const (
	denyAll       = "deny-all" // the negative control
	nothingValid  = "validator"
	nothingMutate = "mutator"
	nothingSink   = "sink"
	nothingAudit  = "audit"
)

// serve serves interceptors. Those that change nothing take note of each invocation in a file, so
// that a mode in which they were never called does not pass.
func serve(ctx context.Context, kinds []string, notes string) error {
	made := map[string]func(d interceptor.Descriptor, called func()) interceptor.Interceptor{
		denyAll: func(d interceptor.Descriptor, called func()) interceptor.Interceptor {
			d.Hooks = interceptor.OnRequest("tools/call")
			return interceptor.Validator(d, func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				called()
				return interceptor.Deny("denied by the control"), nil
			})
		},
		nothingValid: pass,
		nothingAudit: func(d interceptor.Descriptor, called func()) interceptor.Interceptor {
			d.Mode = schemas.ModeAudit
			return interceptor.Validator(d, func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				called()
				return interceptor.Deny("an audit never blocks"), nil
			})
		},
		nothingMutate: func(d interceptor.Descriptor, called func()) interceptor.Interceptor {
			return interceptor.Mutator(d, func(context.Context, *interceptor.Call) (interceptor.Mutation, error) {
				called()
				return interceptor.Unmodified(), nil
			})
		},
		nothingSink: func(d interceptor.Descriptor, called func()) interceptor.Interceptor {
			return interceptor.Sink(d, func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				called()
				return interceptor.Receipt{Recorded: true}, nil
			})
		},
	}
	file, err := os.OpenFile(notes, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // G304: the harness's own folder
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // each line is written at once
	var list []interceptor.Interceptor
	for _, kind := range kinds {
		build, ok := made[kind]
		if !ok {
			return fmt.Errorf("no interceptor %q", kind)
		}
		list = append(list, build(interceptor.Descriptor{Name: "conformance/" + kind, Hooks: interceptor.Both("*")}, func() {
			_, _ = file.WriteString(kind + "\n") // one write, so that lines of several processes do not mix
		}))
	}
	server, err := interceptor.New(nil, list...)
	if err != nil {
		return err
	}
	return server.ServeStdio(ctx, os.Stdin, os.Stdout)
}

func pass(d interceptor.Descriptor, called func()) interceptor.Interceptor {
	return interceptor.Validator(d, func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
		called()
		return interceptor.Pass(), nil
	})
}

// calls counts the notes, by interceptor.
func calls(notes string) map[string]int {
	text, _ := os.ReadFile(notes) //nolint:gosec // G304: the harness's own folder
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		count[strings.TrimSpace(line)]++
	}
	return count
}

func callsText(count map[string]int) string {
	var parts []string
	for kind, n := range count {
		parts = append(parts, fmt.Sprintf("%s %d", kind, n))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}
