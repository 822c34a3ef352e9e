package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/demo"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
)

const (
	demoBackend = "demo"
	demoHost    = "demo"
)

func newUpCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process",
		Long: "Runs gateway, journal, embedded NATS, the ClickHouse engine and all consumers. Without configured backends\n" +
			"it also starts a demo MCP server and four demo interceptors, and says what to try.",
		Example: "  chaintrail up\n  chaintrail up -c chaintrail.yaml --interceptor './guard --strict' --interceptor https://dlp.example/mcp",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			demoMode := cfg.Demo()
			if demoMode {
				// The demo shows what happens: it keeps bodies as they are. Everything else redacts.
				cfg.Policy = append(cfg.Policy, config.PolicyRule{Server: []string{demoBackend}, Keep: "full"})
			}
			n, err := newNode(a, cfg)
			if err != nil {
				return err
			}
			if !demoMode {
				n.reloadable = a.load
			}
			return n.run(cmd.Context(), func(ctx context.Context) error { return n.up(ctx, demoMode) })
		},
	}
	a.interceptorFlag(cmd)
	return cmd
}

func (n *node) up(ctx context.Context, demoMode bool) error {
	running, err := findRuntime(n.cfg, anyProcess, "up")
	if err != nil {
		return err
	}
	if running != nil {
		return withHint(fmt.Errorf("chaintrail up runs on %s already (process %d)", n.cfg.Data, running.PID), "stop it first, or choose another directory with --data")
	}
	if demoMode {
		if err := n.startDemo(ctx); err != nil {
			return err
		}
	}
	joinOrServe := n.serveBus
	if n.cfg.Bus.URL != "" {
		joinOrServe = n.requireBus
	}
	err = inOrder(ctx,
		func(ctx context.Context) error { return n.findStore(ctx, true) },
		joinOrServe, n.writeStore, n.writeSinks, n.sealStream, n.openJournal, n.recordHeads, n.keepHouse, n.adoptOrphans, n.runDeferred, n.runChain, n.serveGateway, n.watchReload, n.serveTelemetry, n.answerStatus,
		func(ctx context.Context) error { return n.announce(ctx, "up", runtimeInfo{Gateway: n.gatewayURL}) },
	)
	if err == nil {
		n.greet(demoMode)
	}
	return err
}

// startDemo serves the shop on loopback and its interceptors in this process.
func (n *node) startDemo(ctx context.Context) error {
	server, err := demo.Interceptors(version)
	if err != nil {
		return err
	}
	n.addLocal(demoHost, server)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the demo server: %w", err)
	}
	n.cfg.Backends = []config.Backend{{Name: demoBackend, URL: "http://" + listener.Addr().String() + "/"}}
	shop := &http.Server{Handler: demo.Handler(version), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	return n.group.Start(ctx, lifecycle.Part{
		Name: "demo server",
		Start: func(context.Context) error {
			go func() { // exits when the server is closed
				if err := shop.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
					failed <- err
				}
			}()
			return nil
		},
		Stop:   func(context.Context) error { return shop.Close() },
		Failed: failed,
	})
}

// greet says where things are and what to try next.
func (n *node) greet(demoMode bool) {
	w := n.app.err
	fmt.Fprintf(w, "\nchaintrail %s is up. Data: %s\n", version, n.cfg.Data)
	for _, b := range n.cfg.Backends {
		fmt.Fprintf(w, "  MCP endpoint  %s/%s/mcp\n", n.gatewayURL, b.Name)
	}
	if n.dsn != "" {
		fmt.Fprintln(w, "  store         ClickHouse, read it with chaintrail tail, search, show, stats")
	}
	if !demoMode {
		fmt.Fprintln(w, "\nStop with Ctrl-C.")
		return
	}
	where := ""
	if n.cfg.Data != config.Default().Data {
		where = " --data " + n.cfg.Data
	}
	fmt.Fprintf(w, `  demo          a shop as MCP server; a redactor and a secret detector in the path,
                a mail policy in audit mode and a recorder off it. The demo keeps bodies in full.

Three things to try in another terminal:
  1. bin/chaintrail call %[1]s/%[2]s/mcp lookup_customer id=c-1
  2. bin/chaintrail call %[1]s/%[2]s/mcp send_mail to=ada@example.org text='my key is ghp_%[3]s'
  3. bin/chaintrail search --outcome denied%[4]s      then: bin/chaintrail show ID%[4]s

Stop with Ctrl-C.
`, n.gatewayURL, demoBackend, "0123456789abcdefghijABCDEFGHIJ012345", where)
}
