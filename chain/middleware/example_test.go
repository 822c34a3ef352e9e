package middleware_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/middleware"
	"github.com/chaintrail/chaintrail/schemas"
)

func Example() {
	ctx := context.Background()
	guard, err := interceptor.New(nil, interceptor.ValidatorBool(interceptor.Descriptor{
		Name: "acme/guard", Hooks: interceptor.OnRequest(interceptor.EventToolsCall),
	}, func(_ context.Context, call *interceptor.Call) (bool, error) {
		return !strings.Contains(string(call.Payload), "rm -rf"), nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := chain.NewSet(chain.SetOptions{Hosts: []chain.HostSpec{{Ref: schemas.HostRef{Host: "inprocess"}, Connect: chain.Local(guard)}}})
	if err == nil {
		err = set.Start(ctx) // in a real server, Run keeps remote interceptors connected
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	background := chain.NewBackground(nil)
	defer func() { _ = background.Close(ctx) }()
	intercept, err := middleware.New(middleware.Options{Plan: set.Current, Background: background, Server: "shell"})
	if err != nil {
		fmt.Println(err)
		return
	}

	server := mcp.NewServer(&mcp.Implementation{Name: "shell", Version: "1"}, nil)
	type command struct {
		Line string `json:"line"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "run"}, func(_ context.Context, _ *mcp.CallToolRequest, c command) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ran " + c.Line}}}, nil, nil
	})
	server.AddReceivingMiddleware(intercept.Receive)

	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, theirs, nil); err != nil {
		fmt.Println(err)
		return
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, ours, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = session.Close() }()
	for _, line := range []string{"ls", "rm -rf /"} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "run", Arguments: command{line}})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// ran ls
	// calling "tools/call": Interceptor validation failed
}
