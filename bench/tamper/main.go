// Command tamper proves that chaintrail verify notices whatever is done to an audit trail.
//
// A real trail is made: a gateway under calls, stopped, killed and adopted, stored in the real engine, sealed and anchored. Each
// case then works on a copy of tables, ledger and anchors, changes one thing, and must be found and named; the untouched copy
// must raise no alarm. Each check is shown to be needed: with it switched off, its findings are gone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/chaintrail/chaintrail/audit/verify"
)

type options struct {
	bin      string
	calls    int
	seed     uint64
	sabotage string
	only     string
	keep     bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin/chaintrail", "chaintrail binary under test")
	flag.IntVar(&o.calls, "calls", 12, "calls in each of three runs")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of what is tampered with")
	flag.StringVar(&o.sabotage, "sabotage", "", "switch one check of the verifier off: the result must be red")
	flag.StringVar(&o.only, "only", "", "run the case of this name only")
	flag.BoolVar(&o.keep, "keep", false, "keep the data")
	flag.Parse()
	if o.sabotage != "" && !slices.Contains(verify.Checks(), verify.Check(o.sabotage)) {
		fmt.Fprintf(os.Stderr, "tamper: unknown check %q; there are %v\n", o.sabotage, verify.Checks())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	clean, err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tamper:", err)
	}
	if err != nil || !clean {
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) (clean bool, err error) {
	dir, err := os.MkdirTemp("", "chaintrail-tamper-")
	if err != nil {
		return false, err
	}
	defer func() {
		if o.keep || !clean {
			fmt.Println("data and logs are kept in", dir) //nolint:forbidigo // the command's output
			return
		}
		_ = os.RemoveAll(dir)
	}()
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return false, err
	}
	t := &trail{bin: bin, dir: dir, calls: o.calls, seed: o.seed}
	defer func() { err = errors.Join(err, t.close()) }()
	begun := time.Now()
	if err := t.make(ctx); err != nil {
		return false, fmt.Errorf("make a trail: %w", err)
	}
	made := time.Since(begun)
	clean, err = t.judge(ctx, o)
	verdict := "clean"
	if !clean {
		verdict = "NOT CLEAN"
	}
	fmt.Printf("seed %d, %d events, made in %s, verified in %s: %s\n", //nolint:forbidigo // the command's output
		o.seed, t.events, made.Round(time.Millisecond), (time.Since(begun) - made).Round(time.Millisecond), verdict)
	return clean, err
}

// judge runs all cases and prints the table.
func (t *trail) judge(ctx context.Context, o *options) (clean bool, err error) {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tWHERE\tEXPECTED\tRESULT\tALSO FOUND BY")
	clean = true
	shown := map[verify.Check]bool{}
	list := cases()
	for i := range list {
		c := &list[i]
		if o.only != "" && c.name != o.only {
			continue
		}
		result, others, err := t.try(ctx, c, i, o.sabotage)
		if err != nil {
			return false, errors.Join(fmt.Errorf("case %s: %w", c.name, err), w.Flush())
		}
		if result != "found" && result != "no alarm" {
			clean = false
		} else if c.want != "" && o.sabotage == "" && !shown[c.want] {
			shown[c.want] = true
			report, err := t.verify(ctx, t.caseDir(i), string(c.want))
			if err != nil {
				return false, errors.Join(fmt.Errorf("case %s without its check: %w", c.name, err), w.Flush())
			}
			result += ", not without the check"
			if report.Counts[c.want] > 0 {
				result, clean = "found although the check is off", false
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v\n", c.name, c.where, c.expected(), result, others)
	}
	if err := w.Flush(); err != nil {
		return false, err
	}
	if o.only == "" && o.sabotage == "" {
		for _, check := range verify.Checks() {
			if !shown[check] {
				fmt.Println("no case needs the check", check) //nolint:forbidigo // the command's output
				clean = false
			}
		}
	}
	return clean, nil
}
