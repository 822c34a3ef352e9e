package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/client"
	"github.com/chaintrail/chaintrail/chain/interceptor"
)

// A session whose calls are judged before they are sent.
func Example() {
	ctx := context.Background()
	ours, theirs := mcp.NewInMemoryTransports()
	server, err := new(backend).server().Connect(ctx, theirs, nil)
	if err != nil {
		log.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(ctx, ours, nil)
	if err != nil {
		log.Fatal(err)
	}
	rules, err := chain.NewLocalChain(nil, interceptor.Validator(
		interceptor.Descriptor{Name: "no-secrets", Hooks: interceptor.OnRequest("tools/call")},
		func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			if strings.Contains(string(call.Payload), "password") {
				return interceptor.Deny("a password leaves the house"), nil
			}
			return interceptor.Pass(), nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(session, client.Options{Plan: rules.Plan, Background: rules.Background()})
	if err != nil {
		log.Fatal(err)
	}

	for _, text := range []string{"hello", "password"} {
		result, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}})
		if denied, ok := errors.AsType[*chain.DeniedError](err); ok {
			fmt.Println("denied by", denied.Interceptor+":", denied.Messages[0].Message)
			continue
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}

	_ = rules.Close(ctx)
	_ = session.Close()
	_ = server.Wait()
	// Output:
	// got {"text":"hello"}
	// denied by no-secrets: a password leaves the house
}
