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
	"github.com/chaintrail/chaintrail/schemas"
)

// departments chooses interceptor servers by a header of the request; what it does not know is refused.
type departments map[string]chain.HostSpec

func (d departments) Resolve(_ context.Context, r *gateway.Request) (gateway.Resolution, error) {
	if r.Event != interceptor.EventToolsCall {
		return gateway.Resolution{}, nil
	}
	name := r.Headers.Get("X-Department")
	host, ok := d[name]
	if !ok {
		return gateway.Resolution{}, fmt.Errorf("department %q is not known", name)
	}
	return gateway.Resolution{Hosts: []chain.HostSpec{host}}, nil
}

// fromDepartment sends the header with each request.
type fromDepartment string

func (d fromDepartment) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Department", string(d))
	return http.DefaultTransport.RoundTrip(r)
}

// Interceptor servers chosen for each request. [gateway.ResolveRules] do it by configuration.
func ExampleResolver() {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "pay", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "pay"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "paid"}}}, nil, nil
	})
	backend := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer backend.Close()

	chosen := departments{}
	for name, may := range map[string]bool{"finance": true, "sales": false} {
		rule, err := interceptor.New(nil, interceptor.ValidatorBool(
			interceptor.Descriptor{Name: name + "/may-pay", Hooks: interceptor.OnRequest(interceptor.EventToolsCall)},
			func(context.Context, *interceptor.Call) (bool, error) { return may, nil }))
		if err != nil {
			fmt.Println(err)
			return
		}
		chosen[name] = chain.HostSpec{Ref: schemas.HostRef{Host: name}, Connect: chain.Local(rule)} // or chain.Remote
	}
	gw, err := gateway.New(gateway.Options{
		Recorder: trail{},
		Backends: []gateway.Backend{{Name: "pay", URL: backend.URL}},
		Rules:    gateway.Rules{Resolver: chosen},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close() //nolint:errcheck // the example is over
	front := httptest.NewServer(gw.Handler())
	defer front.Close()

	for _, department := range []string{"finance", "sales", "none"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: front.URL + "/pay/mcp", HTTPClient: &http.Client{Transport: fromDepartment(department)},
		}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		if result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "pay"}); err != nil {
			fmt.Println(department, err)
		} else {
			fmt.Println(department, result.Content[0].(*mcp.TextContent).Text)
		}
		_ = session.Close()
	}
	// Output:
	// finance paid
	// sales calling "tools/call": Interceptor validation failed
	// none calling "tools/call": the interceptors for this request are not available
}
