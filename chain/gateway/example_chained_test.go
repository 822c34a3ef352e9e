package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
)

// before puts a gateway with interceptors before what is at url, and returns its own URL.
func before(url string, list ...interceptor.Interceptor) (front string, stop func(), err error) {
	rules, err := chain.NewLocalChain(nil, list...)
	if err != nil {
		return "", nil, err
	}
	gw, err := gateway.New(gateway.Options{
		Recorder: trail{},
		Backends: []gateway.Backend{{Name: "mail", URL: url, Plan: func() gateway.Plan { return rules.Plan() }}},
	})
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewServer(gw.Handler())
	return server.URL + "/mail/mcp", func() {
		_ = gw.Close()
		server.Close()
		_ = rules.Close(context.Background())
	}, nil
}

// Gateways in a row, each with interceptors of its own: a request goes through the outer ones first, and has one trace id
// in all of them.
func Example_chained() {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "mail", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "send"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "sent"}}}, nil, nil
	})
	backend := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer backend.Close()

	watch := func(who string) interceptor.Interceptor {
		return interceptor.Validator(
			interceptor.Descriptor{Name: who + "/watch", Hooks: interceptor.OnRequest(interceptor.EventToolsCall)},
			func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
				caller, err := call.Caller()
				fmt.Println(who, caller.TraceID)
				return interceptor.Pass(), err
			})
	}
	url := backend.URL
	for _, who := range []string{"team", "company"} {
		front, stop, err := before(url, watch(who))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer stop()
		url = front
	}

	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close() //nolint:errcheck // the example is over
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Meta: mcp.Meta{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, Name: "send",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// company 4bf92f3577b34da6a3ce929d0e0e4736
	// team 4bf92f3577b34da6a3ce929d0e0e4736
	// sent
}
