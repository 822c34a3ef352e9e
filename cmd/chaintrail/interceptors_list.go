package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// inForce is one plan as list prints it.
type inForce struct {
	Tenant       string             `json:"tenant"`
	Server       string             `json:"server"`
	Digest       string             `json:"digest"`
	Since        *time.Time         `json:"since,omitempty"` // of a running process
	Interceptors []listedEntry      `json:"interceptors"`
	Ignored      []schemas.PlanNote `json:"ignored,omitempty"`
}

type listedEntry struct {
	schemas.PlanEntry
	Health *query.Health `json:"health,omitempty"` // of the last hour; of a running process
}

func newListCmd(a *app) *cobra.Command {
	var configured bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the interceptors in force, where each comes from and how it does",
		Long: "When chaintrail up or gateway runs on this data directory, lists its plan from the store, with how the\n" +
			"invocations of the last hour went. Otherwise, or with --configured, connects to the configured servers and\n" +
			"lists the plan that they make.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			running, err := findRuntime(cfg, anyProcess, "up", "gateway")
			if err != nil {
				return err
			}
			if running == nil || configured || len(a.interceptors) > 0 {
				return a.withPlan(cmd.Context(), func(_ context.Context, n *node, plan *chain.Plan) error {
					record, _ := plan.Record()
					return a.printPlans([]inForce{planFor(n.cfg.Tenant, &record, nil)})
				})
			}
			return a.withCurrentStore(cmd.Context(), a.listRunning)
		},
	}
	cmd.Flags().BoolVar(&configured, "configured", false, "what the configuration makes, also when a process runs")
	a.interceptorFlag(cmd)
	a.outputFlag(cmd)
	return cmd
}

func planFor(tenant string, p *schemas.Plan, health map[string]query.Health) inForce {
	out := inForce{Tenant: tenant, Server: p.Server, Digest: p.Digest.String(), Ignored: p.Ignored, Interceptors: []listedEntry{}}
	for _, e := range p.Entries {
		entry := listedEntry{PlanEntry: e}
		if h, ok := health[e.Name]; ok {
			entry.Health = &h
		}
		out.Interceptors = append(out.Interceptors, entry)
	}
	return out
}

func (a *app) listRunning(ctx context.Context, n *node) error {
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	reader := query.New(conn)
	plans, err := reader.Plans(ctx)
	if err != nil {
		return queryError(err)
	}
	health, err := reader.Healths(ctx, time.Now().Add(-time.Hour))
	if err != nil {
		return queryError(err)
	}
	out := make([]inForce, 0, len(plans))
	for i := range plans {
		p := planFor(plans[i].Tenant, &plans[i].Plan, health)
		p.Since = &plans[i].Since
		out = append(out, p)
	}
	return a.printPlans(out)
}

func (a *app) printPlans(plans []inForce) error {
	return a.print(plans, func() error {
		for i := range plans {
			if err := a.planTable(&plans[i]); err != nil {
				return err
			}
		}
		if len(plans) == 0 {
			fmt.Fprintln(a.out, "no plan is stored yet")
		}
		return nil
	})
}

func (a *app) planTable(p *inForce) error {
	fmt.Fprintf(a.out, "before %s   tenant %s   plan %.12s", p.Server, p.Tenant, p.Digest)
	if p.Since != nil {
		fmt.Fprintf(a.out, "   since %s", p.Since.Format(time.DateTime))
	}
	fmt.Fprintln(a.out)
	t := newTable(a.out, "INTERCEPTOR", "HOST", "TYPE", "MODE", "FAILS", "HOOKS", "TIMEOUT", "FROM", "HEALTH")
	for _, e := range p.Interceptors {
		fails := "closed"
		if e.FailOpen {
			fails = "open"
		}
		t.row(strings.TrimSpace(e.Name+" "+e.Version), e.Host, string(e.Type), modeText(&e.PlanEntry), fails, hooksText(e.Hooks),
			(time.Duration(e.TimeoutMS) * time.Millisecond).String(), strings.Join(e.Origin, " "), healthText(e.Health))
	}
	for _, note := range p.Ignored {
		t.row(note.Name, note.Host, "", "", "", "", "", "not in force: "+note.Reason, "")
	}
	return t.flush()
}

// modeText tells a canary from what is active for everybody.
func modeText(e *schemas.PlanEntry) string {
	if !e.Canary.IsZero() {
		return "canary"
	}
	return string(e.Mode)
}

func hooksText(hooks []schemas.Hook) string {
	parts := make([]string, len(hooks))
	for i, h := range hooks {
		parts[i] = string(h.Phase) + ":" + strings.Join(h.Events, ",")
	}
	return strings.Join(parts, " ")
}

func healthText(h *query.Health) string {
	switch {
	case h == nil:
		return "-"
	case h.Failures == 0:
		return fmt.Sprintf("ok, %d runs", h.Runs)
	}
	return fmt.Sprintf("%d of %d failed", h.Failures, h.Runs)
}
