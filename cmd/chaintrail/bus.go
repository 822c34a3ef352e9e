package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/internal/lifecycle"
)

func newBusCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "bus",
		Short: "Run the embedded NATS JetStream server as its own process",
		Long: "Runs NATS JetStream on <data>/streams. It listens on bus.listen; clients need the token of\n" +
			"<data>/keys/bus.token. Other chaintrail processes of this data directory find it by themselves.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runNode(cmd.Context(), func(ctx context.Context, n *node) error {
				if err := n.serveBus(ctx); err != nil {
					return err
				}
				return n.announce(ctx, "bus", runtimeInfo{})
			})
		},
	}
}

// announce publishes the runtime file until the stop.
func (n *node) announce(ctx context.Context, role string, info runtimeInfo) error {
	if n.server != nil {
		info.BusURL, info.BusToken = n.server.URL(), n.server.Token()
	}
	if n.ownEngine {
		info.EngineDSN = n.dsn
	}
	var remove func()
	return n.group.Start(ctx, lifecycle.Part{
		Name: "runtime file",
		Start: func(ctx context.Context) (err error) {
			n.log.InfoContext(ctx, "ready", slog.String("role", role))
			remove, err = publishRuntime(ctx, n.cfg, role, info)
			return err
		},
		Stop: func(context.Context) error { remove(); return nil },
	})
}
