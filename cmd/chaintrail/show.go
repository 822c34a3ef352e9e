package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

func newShowCmd(a *app) *cobra.Command {
	var maxBody int
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one exchange as a timeline",
		Long: "Shows an exchange by its id, or by the beginning of it: bodies before and after, each interceptor with\n" +
			"verdict and latency, and why others did not run.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(withHint(errors.New("show needs one exchange id"), "chaintrail search"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCurrentStore(cmd.Context(), func(ctx context.Context, n *node) error {
				return a.show(ctx, n, args[0], maxBody)
			})
		},
	}
	cmd.Flags().IntVar(&maxBody, "max-body", 4096, "bytes of each body to show")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) show(ctx context.Context, n *node, id string, maxBody int) error {
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	timeline, err := query.New(conn).Show(ctx, id, maxBody)
	if err != nil {
		return queryError(err)
	}
	return a.print(timeline, func() error { a.timeline(timeline); return nil })
}

// timeline draws an exchange for people.
func (a *app) timeline(t *query.Timeline) {
	fmt.Fprintf(a.out, "exchange %s   tenant %s\n", t.Exchange, t.Tenant)
	for i := range t.Phases {
		a.phase(&t.Phases[i])
	}
	if t.Open {
		fmt.Fprintln(a.out, "\nno outcome yet: the exchange is open, or its end is not stored")
	}
}

func (a *app) phase(p *query.Phase) {
	e := &p.Event
	fmt.Fprintf(a.out, "\n%s  %s  %s", e.Time.Std().Format("2006-01-02 15:04:05.000000"), strings.ToUpper(string(e.Kind)), a.operation(e))
	if e.Decision != nil {
		fmt.Fprintf(a.out, "  → %s", a.decision(e.Decision))
	}
	fmt.Fprintf(a.out, "\n  event %s  writer %s seq %d  hash %s\n", e.ID, e.Writer, e.Seq, p.Hash)
	a.origin(p)
	for i := range p.Invocations {
		a.invocation(&p.Invocations[i])
	}
	if p.Detail != nil {
		a.line("told the caller", p.Detail.Reason)
		a.line("error", p.Detail.Error)
	}
	for i := range p.Bodies {
		a.body(&p.Bodies[i])
	}
}

func (a *app) line(name, value string) {
	if value != "" {
		fmt.Fprintf(a.out, "  %s: %s\n", name, printable(value, 400))
	}
}

func (a *app) operation(e *schemas.Event) string {
	if e.Operation == nil {
		return ""
	}
	return printable(strings.TrimSpace(e.Operation.Server+" "+e.Operation.Event+" "+e.Operation.Target), 200)
}

func (a *app) decision(d *schemas.Decision) string {
	parts := []string{string(d.Status)}
	if d.Outcome != "" {
		parts = []string{string(d.Outcome)}
	}
	if d.AbortedAt != "" {
		parts = append(parts, fmt.Sprintf("at %s (%s, %s phase)", d.AbortedAt, d.AbortType, d.AbortPhase))
	}
	if d.Cause != "" {
		parts = append(parts, d.Cause)
	}
	if d.IsError {
		parts = append(parts, "tool reported an error")
	}
	if d.ErrorCode != 0 {
		parts = append(parts, fmt.Sprintf("code %d", d.ErrorCode))
	}
	if d.TotalUS > 0 {
		parts = append(parts, fmt.Sprintf("%s ms, backend %s ms", millis(d.TotalUS), millis(d.BackendUS)))
	}
	return strings.Join(parts, ", ")
}

// origin tells who called from where, as far as that is kept.
func (a *app) origin(p *query.Phase) {
	c := p.Context
	if c == nil {
		return
	}
	who := strings.TrimSpace(c.PrincipalType + " " + c.Principal)
	client := strings.TrimSpace(strings.Join([]string{c.ClientName, c.ClientVersion, c.ClientAddress}, " "))
	a.line("principal", who)
	a.line("client", client)
	a.line("session", c.SessionID)
	a.line("asked for", strings.TrimSpace(c.Method+" "+c.Target))
}

func (a *app) invocation(inv *query.Invocation) {
	fmt.Fprintf(a.out, "  %2d %-11s %-7s %-32s %s", inv.Order, inv.Type, inv.Mode, printable(inv.Interceptor+" "+inv.Version, 48), verdict(inv))
	if inv.Deferred && !inv.Ended.IsZero() {
		fmt.Fprintf(a.out, "  (off the path, recorded %s)", inv.Ended.UTC().Format("15:04:05.000"))
	}
	fmt.Fprintln(a.out)
	if d := inv.Detail; d != nil {
		for _, part := range []struct {
			name  string
			value []byte
		}{{"messages", d.Messages}, {"suggestions", d.Suggestions}, {"info", d.Info}, {"metrics", d.Metrics}, {"would have made", d.Payload}} {
			if len(part.value) > 0 {
				fmt.Fprintf(a.out, "       %s: %s\n", part.name, printable(string(part.value), 400))
			}
		}
		if d.Error != "" {
			fmt.Fprintf(a.out, "       error: %s\n", printable(d.Error, 400))
		}
	}
}

// verdict says in a few words what an interceptor did, or why it did not run.
func verdict(inv *query.Invocation) string {
	took := (time.Duration(inv.DurationUS) * time.Microsecond).String()
	switch inv.State {
	case schemas.StateSkipped:
		return "did not run: " + string(inv.SkipReason)
	case schemas.StateDeferred:
		return "handed over, no result yet"
	case schemas.StateFailed, schemas.StateTimeout, schemas.StateMalformed:
		open := "fails closed"
		if inv.FailOpen {
			open = "fails open"
		}
		return fmt.Sprintf("%s (%s) %s", inv.State, open, took)
	case schemas.StateFinished:
	}
	switch {
	case inv.Valid != nil && *inv.Valid:
		return "valid " + took
	case inv.Valid != nil:
		return fmt.Sprintf("INVALID (%s) %s", inv.Severity, took)
	case inv.Modified != nil && *inv.Modified:
		return "modified " + took
	case inv.Modified != nil:
		return "unmodified " + took
	case inv.Recorded != nil && *inv.Recorded:
		return "recorded " + took
	}
	return "finished " + took
}

func (a *app) body(b *query.Body) {
	fmt.Fprintf(a.out, "  %s  %d bytes, kept %s", b.Name, b.Bytes, b.Keep)
	if len(b.Flags) > 0 {
		fmt.Fprintf(a.out, " (%s)", strings.Join(b.Flags, ", "))
	}
	fmt.Fprintln(a.out)
	switch {
	case b.Missing:
		fmt.Fprintln(a.out, "    (not stored yet, or erased)")
	case b.Data != "":
		for line := range strings.Lines(b.Data) {
			fmt.Fprintf(a.out, "    %s\n", printable(strings.TrimRight(line, "\n"), 1<<16))
		}
		if b.Truncated {
			fmt.Fprintf(a.out, "    … cut after %d characters; --max-body shows more\n", utf8.RuneCountInString(b.Data))
		}
	case len(b.Raw) > 0:
		fmt.Fprintf(a.out, "    %q\n", b.Raw)
	}
}
