// Command crash proves that nothing is lost and nothing doubled while processes are killed.
//
// Gateway, bus, consumer and engine run as separate processes under load. Each round kills one of
// them with SIGKILL at a random moment and starts it again. The oracle stands outside chaintrail: the
// backend's own list of executed calls and the clients' list of answers, joined by a token in the
// arguments. With -sabotage a guard is switched off, and the verdict must turn red.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sabotages lists the guards that can be switched off.
func sabotages() []string {
	return []string{"skip-journal", "ack-early", "double-insert", "drop-range", "skip-adopt"}
}

type options struct {
	bin      string
	rounds   int
	clients  int
	seed     uint64
	sabotage string
	keep     bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "interceptors" {
		if err := serveInterceptors(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "interceptors:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.bin, "bin", "bin/chaintrail", "chaintrail binary under test")
	flag.IntVar(&o.rounds, "rounds", 25, "kills")
	flag.IntVar(&o.clients, "clients", 6, "concurrent MCP clients")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the faults")
	flag.StringVar(&o.sabotage, "sabotage", "", "switch one guard off: "+strings.Join(sabotages(), ", "))
	flag.BoolVar(&o.keep, "keep", false, "keep the data directory")
	flag.Parse()
	if o.sabotage != "" && !slices.Contains(sabotages(), o.sabotage) {
		fmt.Fprintf(os.Stderr, "crash: unknown sabotage %q; there are %s\n", o.sabotage, strings.Join(sabotages(), ", "))
		os.Exit(2)
	}
	clean, err := run(context.Background(), o, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	case !clean:
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) (clean bool, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "chaintrail-crash-")
	if err != nil {
		return false, err
	}
	defer func() {
		if o.keep || !clean {
			fmt.Fprintln(out, "data and logs are kept in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return false, err
	}
	backend, err := startBackend(ctx)
	if err != nil {
		return false, err
	}
	defer backend.close()
	s, err := newStack(dir, o, backend.url)
	if err != nil {
		return false, err
	}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "rounds %d, clients %d, seed %d, sabotage %q\n", o.rounds, o.clients, o.seed, o.sabotage)
	load := startLoad(ctx, s.endpoint, o.clients)
	faults, err := s.rounds(ctx, o.rounds, rand.New(rand.NewPCG(o.seed, 1))) //nolint:gosec // G404: a seeded fault schedule
	answers := load.stop()
	if err != nil {
		return false, err
	}
	v, err := judge(ctx, s, backend.list(), answers)
	if err != nil {
		return false, err
	}
	v.print(out, faults, backend.list(), answers)
	return v.clean(), nil
}
