package gateway_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
)

// A proxy that a desktop client starts in the place of a stdio server: it starts that server itself, and stands between.
func ExampleGateway_ServeStdio() {
	ctx := context.Background()
	rules, err := chain.NewLocalChain(nil, interceptor.ValidatorBool(
		interceptor.Descriptor{Name: "acme/quiet", Hooks: interceptor.OnRequest(interceptor.EventToolsCall)},
		func(_ context.Context, call *interceptor.Call) (bool, error) {
			return !strings.Contains(string(call.Payload), "password"), nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rules.Close(ctx) //nolint:errcheck // the example is over
	gw, err := gateway.New(gateway.Options{
		Recorder: trail{},
		Backends: []gateway.Backend{{
			Name:    "files",
			Command: os.Args[:1], Env: map[string]string{"GATEWAY_TEST_CHILD": "sdk"}, // the server: a program and its arguments
			Plan: func() gateway.Plan { return rules.Plan() },
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close() //nolint:errcheck // the example is over

	// A program hands over os.Stdin and os.Stdout; here the client is in the same process.
	in, toGateway := io.Pipe()
	fromGateway, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- gw.ServeStdio(ctx, in, out) }()

	client := mcp.NewClient(&mcp.Implementation{Name: "desktop", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: fromGateway, Writer: toGateway}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"hello", "password"} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	_ = session.Close()
	fmt.Println(<-ended)
	// Output:
	// hello
	// calling "tools/call": Interceptor validation failed
	// <nil>
}
