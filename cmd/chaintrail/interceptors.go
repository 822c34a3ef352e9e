package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
)

func newInterceptorsCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "interceptors",
		Short: "Serve the built-in interceptors, see what is in force and why, try one by hand",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newServeCmd(a), newListCmd(a), newExplainCmd(a), newInvokeCmd(a), newRunCmd(a))
	return cmd
}

func newServeCmd(a *app) *cobra.Command {
	var listen, state string
	cmd := &cobra.Command{
		Use:   "serve [NAME…]",
		Short: "Serve built-in interceptors to any SEP-2624 host",
		Long: "Serves the named built-ins, or all, on standard input and output, or over streamable HTTP with --listen.\n" +
			"With --config they are the built-ins under interceptors: of that file, by their names there and with its\n" +
			"configuration for calls that bring none; else the configuration of each call is the host's. There are:\n\n" + builtinTable(),
		Example: "  chaintrail interceptors serve chaintrail/pii-redactor\n  chaintrail interceptors serve --listen 127.0.0.1:8790\n" +
			"  chaintrail interceptors serve -c policies.yaml",
		RunE: func(cmd *cobra.Command, names []string) error {
			hosts := plainBuiltins(names)
			if cmd.Flag("config").Changed {
				cfg, err := a.load()
				if err != nil {
					return err
				}
				hosts = cfg.Interceptors
			}
			server, err := builtinServer(hosts, names, state)
			if err != nil {
				return usage(err)
			}
			if listen == "" {
				return stopped(cmd.Context(), server.ServeStdio(cmd.Context(), a.in, a.out))
			}
			return a.serveHTTP(cmd.Context(), listen, server.HTTPHandler())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "host:port to serve HTTP on, in place of standard input and output; port 0 picks one")
	cmd.Flags().StringVar(&state, "state", "", "directory for what has to outlive the process; default: in memory only")
	return cmd
}

func builtinTable() string {
	var text strings.Builder
	for _, name := range builtin.Names() {
		if made, err := builtin.New(name, nil); err == nil {
			fmt.Fprintf(&text, "  %-28s %s\n", name, made.Descriptor.Description)
		}
	}
	return text.String()
}

// plainBuiltins are the named built-ins, or all, without a configuration.
func plainBuiltins(names []string) []config.Host {
	if len(names) == 0 {
		names = builtin.Names()
	}
	hosts := make([]config.Host, len(names))
	for i, name := range names {
		hosts[i] = config.Host{Name: name, Builtin: name}
	}
	return hosts
}

// builtinServer serves the built-ins among the hosts, or those of them that are named.
func builtinServer(hosts []config.Host, names []string, state string) (*interceptor.Server, error) {
	var list []interceptor.Interceptor
	served := map[string]bool{}
	for _, h := range hosts {
		if h.Builtin == "" || (len(names) > 0 && !slices.Contains(names, h.InterceptorName())) {
			continue
		}
		dir := state
		if dir != "" && h.As != "" {
			dir = filepath.Join(state, h.Name) // there may be several of one kind
		}
		options, err := h.Instance(version, dir)
		if err != nil {
			return nil, fmt.Errorf("interceptors %s: %w", h.Name, err)
		}
		made, err := builtin.New(h.Builtin, &options)
		if err != nil {
			return nil, err
		}
		list, served[h.InterceptorName()] = append(list, made), true
	}
	for _, name := range names {
		if !served[name] {
			return nil, fmt.Errorf("no built-in interceptor %q in the configuration", name)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the configuration has no built-in interceptors")
	}
	return interceptor.New(&interceptor.Options{Name: "chaintrail-interceptors", Version: version}, list...)
}

// serveHTTP serves until the context ends, and says where.
func (a *app) serveHTTP(ctx context.Context, listen string, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(limit)
	})
	defer stop()
	fmt.Fprintf(a.err, "interceptors at http://%s/\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
