package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

func newMigrateCmd(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables of ClickHouse up to this version",
		Long:  "Applies the migrations that are missing. up and consume do the same at their start;\nrun it beforehand where only an operator may change tables.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(ctx context.Context, n *node) error {
				return a.migrate(ctx, n, dryRun)
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what is applied, change nothing")
	return cmd
}

type migration struct {
	Version uint32 `json:"version"`
	Name    string `json:"name"`
	Applied string `json:"applied"`
}

func (a *app) migrate(ctx context.Context, n *node, dryRun bool) error {
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // everything is written
	if !dryRun {
		applied, err := clickhouse.Migrate(ctx, conn, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.err, "%d migrations applied\n", len(applied))
	}
	recorded, err := clickhouse.Recorded(ctx, conn)
	if err != nil {
		return err
	}
	list := make([]migration, 0, len(recorded))
	for v := uint32(1); int(v) <= len(recorded); v++ {
		m := recorded[v]
		list = append(list, migration{m.Version, m.Name, m.Applied.UTC().Format("2006-01-02 15:04:05")})
	}
	return a.print(list, func() error {
		t := newTable(a.out, "VERSION", "NAME", "APPLIED")
		for _, m := range list {
			t.row(strconv.Itoa(int(m.Version)), m.Name, m.Applied)
		}
		return t.flush()
	})
}
