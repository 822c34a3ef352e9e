package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// explained says of one interceptor in one phase whether it ran, and why not.
type explained struct {
	Phase       schemas.Phase `json:"phase"`
	Interceptor string        `json:"interceptor"`
	Ran         bool          `json:"ran"`
	Why         string        `json:"why"`
}

func newExplainCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain EXCHANGE-ID [INTERCEPTOR]",
		Short: "Tell why each interceptor did or did not run on an exchange",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage(withHint(errors.New("explain needs an exchange id, and perhaps an interceptor"), "chaintrail search"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 2 {
				name = args[1]
			}
			return a.withCurrentStore(cmd.Context(), func(ctx context.Context, n *node) error {
				return a.explain(ctx, n, args[0], name)
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) explain(ctx context.Context, n *node, id, name string) error {
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	reader := query.New(conn)
	timeline, err := reader.Show(ctx, id, 1)
	if err != nil {
		return queryError(err)
	}
	reasons := []explained{}
	for i := range timeline.Phases {
		p := &timeline.Phases[i]
		more, err := explainPhase(ctx, reader, p)
		if err != nil {
			return err
		}
		for _, e := range more {
			if name == "" || e.Interceptor == name {
				reasons = append(reasons, e)
			}
		}
	}
	if len(reasons) == 0 && name != "" {
		return withHint(fmt.Errorf("%s was in no plan of this exchange", name), "chaintrail interceptors list")
	}
	return a.print(reasons, func() error {
		t := newTable(a.out, "PHASE", "INTERCEPTOR", "RAN", "WHY")
		for _, e := range reasons {
			ran := "no"
			if e.Ran {
				ran = "yes"
			}
			t.row(string(e.Phase), e.Interceptor, ran, e.Why)
		}
		return t.flush()
	})
}

func explainPhase(ctx context.Context, reader *query.Reader, p *query.Phase) ([]explained, error) {
	op, d := p.Event.Operation, p.Event.Decision
	if op == nil || d == nil {
		return nil, nil
	}
	if d.PlanDigest.IsZero() {
		return []explained{{Phase: op.Phase, Interceptor: "-", Why: "no plan was in force for this message"}}, nil
	}
	plan, err := reader.PlanOf(ctx, d.PlanDigest)
	if err != nil {
		return nil, queryError(err)
	}
	part := map[string]*query.Invocation{}
	for i := range p.Invocations {
		part[p.Invocations[i].Interceptor] = &p.Invocations[i]
	}
	event := op.Event
	if p.Context != nil && p.Context.Method != "" {
		event = p.Context.Method
	}
	var list []explained
	for i := range plan.Entries {
		e := &plan.Entries[i]
		one := explained{Phase: op.Phase, Interceptor: e.Name}
		inv := part[e.Name]
		switch {
		case inv != nil && inv.State == schemas.StateSkipped:
			one.Why = skippedText(inv.SkipReason, d)
		case inv != nil:
			one.Ran, one.Why = inv.State != schemas.StateDeferred, matchedText(e, inv, event)+"; "+verdict(inv)
		case !chain.MatchHooks(e.Hooks, event, op.Phase):
			one.Why = fmt.Sprintf("no hook matches %s %s; it hooks %s", op.Phase, event, hooksText(e.Hooks))
			if strings.Contains(strings.Join(e.Origin, " "), "override.hooks") {
				one.Why += " (narrowed by an override)"
			}
		case d.Outcome != "" && d.Outcome != schemas.OutcomeAllowed:
			one.Why = "there was no result to look at: the exchange ended as " + string(d.Outcome)
		default:
			one.Why = "the message never reached the plan"
		}
		list = append(list, one)
	}
	for _, note := range plan.Ignored {
		list = append(list, explained{Phase: op.Phase, Interceptor: note.Name, Why: "not in force: " + note.Reason})
	}
	return list, nil
}

func matchedText(e *schemas.PlanEntry, inv *query.Invocation, event string) string {
	text := "hooks " + event
	switch {
	case e.Type == schemas.TypeSink:
		text += ", a sink: off the path"
	case e.Mode == schemas.ModeAudit:
		text += ", in audit mode: off the path"
	case inv.ModeReason != "" && inv.Mode == schemas.ModeAudit:
		text += ", enforced for others only: off the path"
	case inv.ModeReason != "":
		text += ", enforced here: " + inv.ModeReason
	}
	return text
}

func skippedText(reason schemas.SkipReason, d *schemas.Decision) string {
	switch reason {
	case schemas.SkipAborted:
		return "an earlier one ended the run: " + d.AbortedAt
	case schemas.SkipChainExpiry:
		return "the time of the whole plan was used up"
	case schemas.SkipCancelled:
		return "the caller gave up"
	case schemas.SkipPolicy:
		return "a policy keeps the payload from it"
	case schemas.SkipErased:
		return "the payload was erased"
	case schemas.SkipBudget:
		return "its time budget was used up"
	case schemas.SkipSampling:
		return "the message is not in its sample"
	}
	return string(reason)
}
