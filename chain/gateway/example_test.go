package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// trail is a recorder; a real one journals what it gets before it returns, as the outbox of package bus does.
type trail struct{}

func (trail) Record(context.Context, *schemas.Record) error { return nil }

// A gateway on one's own mux: a server behind it, an interceptor in the path, a client in front.
func Example() {
	ctx := context.Background()

	server := mcp.NewServer(&mcp.Implementation{Name: "mail", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "send"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "sent"}}}, nil, nil
	})
	backend := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer backend.Close()

	guard, err := interceptor.New(nil, interceptor.Validator(
		interceptor.Descriptor{Name: "acme/dlp", Hooks: interceptor.OnRequest("tools/call")},
		func(_ context.Context, c *interceptor.Call) (interceptor.Verdict, error) {
			if strings.Contains(string(c.Payload), "password") {
				return interceptor.Deny("no passwords by mail"), nil
			}
			return interceptor.Pass(), nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := chain.NewSet(chain.SetOptions{
		Server: "mail",
		Hosts:  []chain.HostSpec{{Ref: schemas.HostRef{Host: "guard"}, Connect: chain.Local(guard)}},
	})
	if err == nil {
		err = set.Start(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	gw, err := gateway.New(gateway.Options{
		Recorder: trail{},
		Backends: []gateway.Backend{{Name: "mail", URL: backend.URL, Plan: func() gateway.Plan { return set.Current() }}},
		Rules:    gateway.Rules{DenyAs: gateway.DenyAsResult},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close() //nolint:errcheck // the example is over
	mux := http.NewServeMux()
	mux.Handle("/mcp/", http.StripPrefix("/mcp", gw.Handler()))
	front := httptest.NewServer(mux)
	defer front.Close()

	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: front.URL + "/mcp/mail/mcp"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close() //nolint:errcheck // the example is over
	for _, text := range []string{"hello", "my password is 1234"} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "send", Arguments: map[string]any{"text": text}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.IsError, result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// false sent
	// true Interceptor validation failed
	// acme/dlp: no passwords by mail
}
