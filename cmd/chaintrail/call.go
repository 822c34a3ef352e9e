package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

var errDenied = errors.New("the call was not carried out")

func newCallCmd(a *app) *cobra.Command {
	var timeout time.Duration
	var headers []string
	cmd := &cobra.Command{
		Use:   "call URL TOOL [NAME=VALUE…]",
		Short: "Call one tool of an MCP server, as a client would",
		Long:  "Calls one tool and prints its result. A VALUE that is JSON is sent as such, else as text.",
		Example: "  chaintrail call http://127.0.0.1:8787/demo/mcp echo text=hello\n" +
			"  chaintrail call stdio:'npx -y @modelcontextprotocol/server-everything' echo message=hi",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(withHint(errors.New("call needs a URL and a tool"), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := parseArguments(args[2:])
			if err != nil {
				return usage(err)
			}
			header, err := parseHeaders(headers)
			if err != nil {
				return usage(err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.call(ctx, args[0], header, args[1], arguments)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait")
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "a header of the HTTP requests, as NAME: VALUE; may be given more than once")
	return cmd
}

func (a *app) call(ctx context.Context, target string, header http.Header, tool string, arguments map[string]any) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "chaintrail-call", Version: version}, nil)
	session, err := client.Connect(ctx, transportFor(ctx, target, header), nil)
	if err != nil {
		return withHint(fmt.Errorf("connect to %s: %w", target, err), "check that chaintrail up is running and that the path is /<backend>/mcp")
	}
	defer session.Close() //nolint:errcheck // the answer is what counts
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return fmt.Errorf("%w: %w", errDenied, err)
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			fmt.Fprintln(a.out, printable(text.Text, 1<<16))
			continue
		}
		encoded, err := jsonx.Marshal(content)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s\n", encoded)
	}
	if result.IsError {
		return fmt.Errorf("tool %s reported an error", tool)
	}
	return nil
}

func transportFor(ctx context.Context, target string, header http.Header) mcp.Transport {
	if command, ok := strings.CutPrefix(target, "stdio:"); ok {
		return &mcp.CommandTransport{Command: exec.CommandContext(ctx, "sh", "-c", "exec "+command)} //nolint:gosec // G204: the operator's own command
	}
	return &mcp.StreamableClientTransport{
		Endpoint: target, MaxRetries: -1, HTTPClient: &http.Client{Transport: withHeader{header}},
	}
}

// withHeader adds headers to every request.
type withHeader struct{ header http.Header }

// RoundTrip implements http.RoundTripper.
func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, w.header)
	return http.DefaultTransport.RoundTrip(r)
}

func parseHeaders(lines []string) (http.Header, error) {
	header := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %q must look like NAME: VALUE", line)
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return header, nil
}

func parseArguments(pairs []string) (map[string]any, error) {
	arguments := make(map[string]any, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("argument %q must look like name=value", pair)
		}
		var decoded any
		if err := jsonx.Unmarshal([]byte(value), &decoded); err != nil {
			decoded = value
		}
		arguments[name] = decoded
	}
	return arguments, nil
}
