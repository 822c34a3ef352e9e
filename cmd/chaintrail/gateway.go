package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
)

func newGatewayCmd(a *app) *cobra.Command {
	var backendURL string
	cmd := &cobra.Command{
		Use:   "gateway [-- COMMAND ARGS…]",
		Short: "Stand between MCP clients and MCP servers",
		Long: "Without a command it serves the configured backends over HTTP, each at /<backend>/mcp.\n" +
			"With a command, or with --url, it speaks MCP on standard input and output and puts itself before that\n" +
			"server: write it in a desktop client's configuration in place of the server's own command.\n\n" +
			"Every exchange is journaled. The journal goes to the configured bus, else to a chaintrail up that runs on\n" +
			"the same data directory, else it waits there to be adopted.",
		Example: "  chaintrail gateway -c chaintrail.yaml\n  chaintrail gateway -- npx -y @modelcontextprotocol/server-filesystem /srv/shared",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if len(args) > 0 || backendURL != "" {
				return a.gatewayStdio(cmd.Context(), cfg, backendURL, args)
			}
			if cfg.Demo() {
				return usage(withHint(errors.New("no backends are configured"), "list them under backends: in "+config.FileName+", or give a command after --"))
			}
			n, err := newNode(a, cfg)
			if err != nil {
				return err
			}
			n.reloadable = a.load
			return n.run(cmd.Context(), func(ctx context.Context) error {
				return inOrder(ctx, n.joinBus, n.openJournal, n.freeJournals, n.runChain, n.serveGateway, n.watchReload, n.serveTelemetry, n.answerStatus,
					func(ctx context.Context) error {
						return n.announce(ctx, "gateway", runtimeInfo{Gateway: n.gatewayURL})
					})
			})
		},
	}
	// Flags end at the server's command: some clients drop the -- before they start us.
	cmd.Flags().SetInterspersed(false)
	a.interceptorFlag(cmd)
	cmd.Flags().StringVar(&backendURL, "url", "", "MCP server to stand before on standard input and output, in place of a command")
	return cmd
}

// gatewayStdio stands before one server on standard input and output.
func (a *app) gatewayStdio(ctx context.Context, cfg config.Config, url string, command []string) error {
	if url != "" && len(command) > 0 {
		return usage(errors.New("give --url or a command after --, not both"))
	}
	if a.logLevel == "" {
		cfg.Log.Level = "warn" // the client shows what we print
	}
	cfg.Backends = []config.Backend{{Name: stdioName(url, command), URL: url, Command: command}}
	n, err := newNode(a, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return n.run(ctx, func(ctx context.Context) error {
		if err := inOrder(ctx, n.joinBus, n.openJournal, n.freeJournals, n.runChain, n.answerStatus); err != nil {
			return err
		}
		err := n.serveStdio(ctx, a.in, a.out)
		cancel() // the client is gone: stop in order
		return err
	})
}

// stdioName derives a backend's name from what it is: the package or program, as far as a name may be.
func stdioName(url string, command []string) string {
	name := url
	if len(command) > 0 {
		name = filepath.Base(command[0])
		// A launcher says less than what it launches.
		for _, arg := range command[1:] {
			if launcher(command[0]) && !strings.HasPrefix(arg, "-") {
				name = filepath.Base(arg)
				break
			}
		}
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	name = strings.Trim(name, "-")
	if len(name) > 63 {
		name = strings.Trim(name[:63], "-")
	}
	if name == "" {
		return "stdio"
	}
	return name
}

func launcher(program string) bool {
	switch filepath.Base(program) {
	case "npx", "node", "uvx", "python", "python3", "bunx", "deno":
		return true
	}
	return false
}
