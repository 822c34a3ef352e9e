// Package demo is what `chaintrail up` starts when nothing is configured: a small MCP server of an
// imaginary shop, and four interceptors that show what validators, mutators, audit mode and sinks do.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type customer struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
	Plan  string `json:"plan"`
}

func customers() []customer {
	return []customer{
		{"c-1", "Ada Example", "ada@example.org", "team"},
		{"c-2", "Grace Sample", "grace@example.net", "free"},
		{"c-3", "Linus Muster", "linus@example.com", "enterprise"},
	}
}

type lookupArgs struct {
	ID string `json:"id" jsonschema:"customer id, such as c-1"`
}

type mailArgs struct {
	To   string `json:"to" jsonschema:"address of the recipient"`
	Text string `json:"text" jsonschema:"body of the mail"`
}

type echoArgs struct {
	Text string `json:"text" jsonschema:"text to send back"`
}

// NewServer returns the shop's MCP server. It keeps nothing: mails go nowhere.
func NewServer(version string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "chaintrail-demo-shop", Version: version}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Sends the text back"},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoArgs) (*mcp.CallToolResult, any, error) {
			return text(in.Text), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "lookup_customer", Description: "Finds a customer by id"},
		func(_ context.Context, _ *mcp.CallToolRequest, in lookupArgs) (*mcp.CallToolResult, customer, error) {
			for _, c := range customers() {
				if c.ID == in.ID {
					return nil, c, nil
				}
			}
			return nil, customer{}, fmt.Errorf("no customer %q: there are c-1, c-2 and c-3", in.ID)
		})
	mcp.AddTool(s, &mcp.Tool{Name: "send_mail", Description: "Sends a mail (to nowhere: this is a demo)"},
		func(_ context.Context, _ *mcp.CallToolRequest, in mailArgs) (*mcp.CallToolResult, any, error) {
			if !strings.Contains(in.To, "@") {
				return nil, nil, errors.New("that is not an address")
			}
			return text(fmt.Sprintf("queued %d characters for %s", len(in.Text), in.To)), nil, nil
		})
	return s
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// Handler serves the shop over streamable HTTP.
func Handler(version string) http.Handler {
	server := NewServer(version)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}
