package main

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/demo"
)

func newDemoServerCmd(*app) *cobra.Command {
	return &cobra.Command{
		Use:   "demo-server",
		Short: "Run the demo's MCP server on standard input and output",
		Long:  "Something to put chaintrail gateway in front of when no other MCP server is at hand.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stopped(cmd.Context(), demo.NewServer(version).Run(cmd.Context(), &mcp.StdioTransport{}))
		},
	}
}
