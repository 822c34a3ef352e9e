package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newConsumeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "consume",
		Short: "Run the consumers: store, sinks, deferred interceptors, adoption",
		Long: "Takes everything off the request path that needs no client: it stores both streams in ClickHouse,\n" +
			"seals them, runs sinks and audit-mode interceptors that are reachable by URL or command, and adopts the\n" +
			"journals of dead processes of this data directory.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runNode(cmd.Context(), func(ctx context.Context, n *node) error {
				return inOrder(ctx,
					func(ctx context.Context) error { return n.findStore(ctx, true) },
					n.requireBus, n.writeStore, n.writeSinks, n.sealStream, n.openJournal, n.recordHeads, n.keepHouse, n.adoptOrphans, n.runDeferred, n.serveTelemetry, n.answerStatus,
					func(ctx context.Context) error { return n.announce(ctx, "consume", runtimeInfo{}) },
				)
			})
		},
	}
}

// inOrder starts parts one after the other; each finds ready what stands before it.
func inOrder(ctx context.Context, starts ...func(context.Context) error) error {
	for _, start := range starts {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}
