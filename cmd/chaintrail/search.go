package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// filterFlags are the questions that search and tail share.
type filterFlags struct {
	query.Filter
	since, until, outcome string
}

func (f *filterFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Server, "server", "", "backend, by its configured name")
	flags.StringVar(&f.Tool, "tool", "", "tool, prompt or resource URI")
	flags.StringVar(&f.Principal, "principal", "", "who called: id or pseudonym")
	flags.StringVar(&f.outcome, "outcome", "", "allowed, denied, error, cancelled, lost or stopped")
	flags.StringVar(&f.Interceptor, "interceptor", "", "interceptor that took part")
	flags.StringVar(&f.Session, "session", "", "MCP session id or its pseudonym")
	flags.StringVar(&f.Exchange, "exchange", "", "exchange id or its beginning")
	flags.StringVar(&f.Tenant, "tenant", "", "tenant")
}

func outcomes() []schemas.Outcome {
	return []schemas.Outcome{
		schemas.OutcomeAllowed, schemas.OutcomeDenied, schemas.OutcomeError,
		schemas.OutcomeCancelled, schemas.OutcomeLost, schemas.OutcomeStopped,
	}
}

// filter turns the flags into a question.
func (f *filterFlags) filter(now time.Time) (query.Filter, error) {
	out := f.Filter
	if f.outcome != "" {
		for _, o := range outcomes() {
			if f.outcome == string(o) {
				out.Outcome = o
			}
		}
		if out.Outcome == "" {
			return out, usage(fmt.Errorf("--outcome %q is not one of %v", f.outcome, outcomes()))
		}
	}
	var err error
	if out.Since, err = parseWhen("--since", f.since, now); err != nil {
		return out, err
	}
	out.Until, err = parseWhen("--until", f.until, now)
	return out, err
}

// parseWhen reads a duration before now (90m, 7d), a date or an RFC 3339 time.
func parseWhen(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if d, err := time.ParseDuration(days + "h"); err == nil && d >= 0 {
			return now.Add(-24 * d), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage(fmt.Errorf("%s %q is neither a duration such as 90m or 7d nor a time such as 2026-11-30 or 2026-11-30T12:00:00Z", flag, text))
}

func newSearchCmd(a *app) *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:   "search [TEXT]",
		Short: "Find exchanges by time, tool, principal, outcome, interceptor, session or text",
		Long: "Finds exchanges, newest first. TEXT is looked for in bodies, names and reasons, without regard to\n" +
			"case: the words as they stand, in this order, each a whole word. Uses the running engine, else starts one for the command.",
		Example: "  chaintrail search --outcome denied --since 24h\n  chaintrail search --tool send_mail 'ada@example.org'",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter(time.Now())
			if err != nil {
				return err
			}
			filter.Text = strings.Join(args, " ")
			return a.withCurrentStore(cmd.Context(), func(ctx context.Context, n *node) error {
				return a.search(ctx, n, filter)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.since, "since", "", "not before: a duration (90m, 7d) or a time (2026-11-30, RFC 3339)")
	cmd.Flags().StringVar(&f.until, "until", "", "before: as --since")
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", query.DefaultLimit, "at most this many")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) search(ctx context.Context, n *node, filter query.Filter) error {
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	found, err := query.New(conn).Search(ctx, filter)
	if err != nil {
		return queryError(err)
	}
	if found == nil {
		found = []query.Exchange{}
	}
	return a.print(found, func() error {
		t := newTable(a.out, exchangeHeader()...)
		for i := range found {
			t.row(exchangeRow(&found[i])...)
		}
		if err := t.flush(); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "%d found; chaintrail show ID tells more\n", len(found))
		return nil
	})
}

func exchangeHeader() []string {
	return []string{"TIME", "ID", "SERVER", "METHOD", "TARGET", "OUTCOME", "MS", "PRINCIPAL", "WHY"}
}

func exchangeRow(x *query.Exchange) []string {
	why := x.AbortedAt
	switch {
	case why == "" && x.Cause != "":
		why = x.Cause
	case why == "" && x.IsError:
		why = "tool error"
	case why == "" && x.ErrorCode != 0:
		why = fmt.Sprintf("error %d", x.ErrorCode)
	}
	principal := x.Principal
	if principal == "" {
		principal = x.PrincipalType
	}
	return []string{
		x.Ended.UTC().Format("2006-01-02 15:04:05.000"), x.ID.String(), x.Server, x.Method, x.Target,
		string(x.Outcome), millis(x.TotalUS), principal, why,
	}
}

func millis(us int64) string { return fmt.Sprintf("%.1f", float64(us)/1000) }
