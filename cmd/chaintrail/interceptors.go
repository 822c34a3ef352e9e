package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/chain/interceptor"
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
			"The configuration of each call is the host's. There are:\n\n" + builtinTable(),
		Example: "  chaintrail interceptors serve chaintrail/pii-redactor\n  chaintrail interceptors serve --listen 127.0.0.1:8790",
		RunE: func(cmd *cobra.Command, names []string) error {
			server, err := builtinServer(names, state)
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

func builtinServer(names []string, state string) (*interceptor.Server, error) {
	if len(names) == 0 {
		names = builtin.Names()
	}
	list := make([]interceptor.Interceptor, 0, len(names))
	for _, name := range names {
		made, err := builtin.New(name, &builtin.Options{Version: version, StateDir: state})
		if err != nil {
			return nil, err
		}
		list = append(list, made)
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
