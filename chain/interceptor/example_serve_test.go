package interceptor_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// An interceptor server over HTTP, and a plan that it is in.
func ExampleServer_HTTPHandler() {
	ctx := context.Background()
	server, err := interceptor.New(nil, interceptor.Mutator(interceptor.Descriptor{
		Name: "acme/polite", Hooks: interceptor.OnRequest(interceptor.EventToolsCall),
	}, func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
		return interceptor.Modified(jsonx.Value(strings.ReplaceAll(string(call.Payload), "now!", "please"))), nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := httptest.NewServer(server.HTTPHandler()) // http.ListenAndServe in a program
	defer listener.Close()

	set, err := chain.NewSet(chain.SetOptions{Hosts: []chain.HostSpec{{
		Ref: schemas.HostRef{Host: "acme"},
		Connect: chain.Remote(func(context.Context) (wire.Conn, error) {
			return wire.NewURLClient(listener.URL, nil), nil
		}, nil),
	}}})
	if err == nil {
		err = set.Start(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	result := set.Current().Run(ctx, chain.Input{
		Event: interceptor.EventToolsCall, Phase: schemas.PhaseRequest, Direction: schemas.Sending,
		Payload: jsonx.Value(`{"name":"order","arguments":{"text":"now!"}}`),
	})
	fmt.Println(result.Status, string(result.Payload))
	stopped, stop := context.WithCancel(ctx)
	stop()
	_ = set.Run(stopped) // closes the connections
	// Output: success {"name":"order","arguments":{"text":"please"}}
}

// Interceptors beside tools, on a go-sdk server that is there already.
func ExampleServer_Install() {
	ctx := context.Background()
	set, err := interceptor.New(nil, interceptor.ValidatorBool(interceptor.Descriptor{
		Name: "acme/open", Hooks: interceptor.OnRequest(interceptor.EventAll),
	}, func(context.Context, *interceptor.Call) (bool, error) { return true, nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	if err := set.Install(server); err != nil {
		fmt.Println(err)
		return
	}

	ours, theirs := mcp.NewInMemoryTransports()
	hosting, err := server.Connect(ctx, theirs, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(ctx, ours, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, advertised := session.InitializeResult().Capabilities.Extensions[interceptor.ExtensionName]
	fmt.Println(advertised)
	_ = session.Close()
	_ = hosting.Wait()
	// Output: true
}
