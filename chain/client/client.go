// Package client puts interceptors around a go-sdk client session: each request goes through the plan before it is sent
// (mutators, then validators), each result before it is returned (validators, then mutators).
//
// A denied request is never sent; the error is a *[chain.DeniedError] that names interceptor, severity, messages and
// status. With a [chain.Recorder] each exchange is recorded, as the gateway does; without one, sinks and audit mode run
// in a [chain.Background].
//
// The SDK's values lose members that it does not know and integers above 2^53 (in what is declared as any); what no
// interceptor changed is handed on as the SDK made it.
package client

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/exchange"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Options are what a [Client] is made of.
type Options struct {
	Plan       func() *chain.Plan // required: the plan in force, such as Set.Current or LocalChain.Plan
	Recorder   chain.Recorder     // nil: nothing is recorded
	Background *chain.Background  // does the deferred work; required without a Recorder
	Server     string             // configured name of the MCP server; empty means "server"
	Events     []string           // patterns of the methods that are intercepted; empty: all
	// PassDiscovery leaves lists (tools, prompts, resources, templates) out of plan and record.
	PassDiscovery bool
	Timeout       time.Duration // of each call, interceptors included; 0: none
	// Principal tells who calls; nil: nobody in particular.
	Principal func(ctx context.Context) (principal chain.Principal, verifiedBy string)
	Transport string   // for the record: "http", "stdio" or "inprocess"
	Key       seal.Key // pseudonym key of the tenant
	Tenant    string
	Gateway   string // configured name of this process
}

// Client is a session with interceptors around it. All methods are concurrent.
type Client struct {
	session *mcp.ClientSession
	runner  *exchange.Runner
	opts    Options
}

// New puts interceptors around a session, which stays the caller's to close.
func New(session *mcp.ClientSession, opts Options) (*Client, error) {
	if opts.Server == "" {
		opts.Server = "server"
	}
	skip := wire.NeverChained
	if opts.PassDiscovery {
		skip = func(method string) bool { return wire.NeverChained(method) || strings.HasSuffix(method, "/list") }
	}
	runner, err := exchange.New(exchange.Options{
		Plan: opts.Plan, Recorder: opts.Recorder, Background: opts.Background, Server: opts.Server, Request: schemas.Sending,
		Events: opts.Events, Skip: skip, Key: opts.Key, Tenant: opts.Tenant, Gateway: opts.Gateway,
	})
	if err != nil {
		return nil, err
	}
	return &Client{session: session, runner: runner, opts: opts}, nil
}

// Session returns the wrapped session; what is called on it meets no interceptor.
func (c *Client) Session() *mcp.ClientSession { return c.session }

// do takes one operation through the plan.
func do[P, R any](ctx context.Context, c *Client, method string, params *P, call func(context.Context, *P) (*R, error)) (*R, error) {
	if c.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Timeout)
		defer cancel()
	}
	if !c.runner.Due(method) {
		return call(ctx, params)
	}
	req := exchange.Request{Method: method, Session: c.session.ID(), Transport: c.opts.Transport}
	if result := c.session.InitializeResult(); result != nil {
		req.Protocol = result.ProtocolVersion
	}
	if c.opts.Principal != nil {
		req.Principal, req.VerifiedBy = c.opts.Principal(ctx)
	}
	return exchange.DoTyped(ctx, c.runner, req, params, call)
}

// nothing is the result of a method that has none to speak of.
type nothing struct{}

// ListTools is tools/list.
func (c *Client) ListTools(ctx context.Context, params *mcp.ListToolsParams) (*mcp.ListToolsResult, error) {
	return do(ctx, c, "tools/list", params, c.session.ListTools)
}

// CallTool is tools/call.
func (c *Client) CallTool(ctx context.Context, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	return do(ctx, c, "tools/call", params, c.session.CallTool)
}

// ListPrompts is prompts/list.
func (c *Client) ListPrompts(ctx context.Context, params *mcp.ListPromptsParams) (*mcp.ListPromptsResult, error) {
	return do(ctx, c, "prompts/list", params, c.session.ListPrompts)
}

// GetPrompt is prompts/get.
func (c *Client) GetPrompt(ctx context.Context, params *mcp.GetPromptParams) (*mcp.GetPromptResult, error) {
	return do(ctx, c, "prompts/get", params, c.session.GetPrompt)
}

// ListResources is resources/list.
func (c *Client) ListResources(ctx context.Context, params *mcp.ListResourcesParams) (*mcp.ListResourcesResult, error) {
	return do(ctx, c, "resources/list", params, c.session.ListResources)
}

// ListResourceTemplates is resources/templates/list.
func (c *Client) ListResourceTemplates(ctx context.Context, params *mcp.ListResourceTemplatesParams) (*mcp.ListResourceTemplatesResult, error) {
	return do(ctx, c, "resources/templates/list", params, c.session.ListResourceTemplates)
}

// ReadResource is resources/read.
func (c *Client) ReadResource(ctx context.Context, params *mcp.ReadResourceParams) (*mcp.ReadResourceResult, error) {
	return do(ctx, c, "resources/read", params, c.session.ReadResource)
}

// Subscribe is resources/subscribe.
func (c *Client) Subscribe(ctx context.Context, params *mcp.SubscribeParams) error {
	_, err := do(ctx, c, "resources/subscribe", params, func(ctx context.Context, p *mcp.SubscribeParams) (*nothing, error) {
		return &nothing{}, c.session.Subscribe(ctx, p)
	})
	return err
}

// Unsubscribe is resources/unsubscribe.
func (c *Client) Unsubscribe(ctx context.Context, params *mcp.UnsubscribeParams) error {
	_, err := do(ctx, c, "resources/unsubscribe", params, func(ctx context.Context, p *mcp.UnsubscribeParams) (*nothing, error) {
		return &nothing{}, c.session.Unsubscribe(ctx, p)
	})
	return err
}

// Complete is completion/complete.
func (c *Client) Complete(ctx context.Context, params *mcp.CompleteParams) (*mcp.CompleteResult, error) {
	return do(ctx, c, "completion/complete", params, c.session.Complete)
}
