package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

func newStatsCmd(a *app) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Sum up calls, outcomes, tools, interceptors and how far the store is",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := parseWhen("--since", since, time.Now())
			if err != nil {
				return err
			}
			return a.withCurrentStore(cmd.Context(), func(ctx context.Context, n *node) error {
				return a.stats(ctx, n, from)
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "24h", "not before: a duration (90m, 7d) or a time")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) stats(ctx context.Context, n *node, since time.Time) error {
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	s, err := query.New(conn).Stats(ctx, since)
	if err != nil {
		return queryError(err)
	}
	return a.print(s, func() error { return a.statsTables(s) })
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func (a *app) statsTables(s *query.Summary) error {
	fmt.Fprintf(a.out, "since %s: %d exchanges", s.Since.Format("2006-01-02 15:04:05"), s.Exchanges)
	for _, o := range outcomes() {
		if n := s.Outcomes[o]; n > 0 {
			fmt.Fprintf(a.out, ", %d %s", n, o)
		}
	}
	if s.Unrecorded > 0 {
		fmt.Fprintf(a.out, "\n%d exchanges passed UNRECORDED: the journal was full and on_full is shed", s.Unrecorded)
	}
	fmt.Fprint(a.out, "\n\n")
	t := newTable(a.out, "SERVER", "METHOD", "TARGET", "CALLS", "DENIED", "ERRORS", "P50 MS", "P95 MS")
	for _, x := range s.Tools {
		t.row(x.Server, x.Method, x.Target, count(x.Calls), count(x.Denied), count(x.Errors), millis(x.P50US), millis(x.P95US))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	t = newTable(a.out, "INTERCEPTOR", "VERSION", "TYPE", "MODE", "RESULTS", "INVALID", "CHANGED", "FAILED", "SKIPPED", "P50 MS", "P95 MS")
	for _, x := range s.Interceptors {
		t.row(x.Name, x.Version, string(x.Type), string(x.Mode), count(x.Results), count(x.Invalid), count(x.Changed),
			count(x.Failed), count(x.Skipped), millis(x.P50US), millis(x.P95US))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	t = newTable(a.out, "STREAM", "STORED UP TO", "EVENTS", "NEWEST PUBLISHED", "P95 MS TO BUS")
	for _, x := range s.Streams {
		t.row(x.Stream, count(x.Position), count(x.Events), x.Published.UTC().Format("2006-01-02 15:04:05.000"), millis(x.DelayUS))
	}
	return t.flush()
}
