package interceptor_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// guard holds what its handlers need.
type guard struct{ closed []string }

// guardConfig is what an invoker may configure; the schema is inferred from it.
type guardConfig struct {
	Only string `json:"only,omitzero"`
}

// tool is the part of the payload that the guard looks at.
type tool struct {
	Name string `json:"name"`
}

func (g *guard) judge(_ context.Context, call *interceptor.Call, tool *tool, config *guardConfig) (interceptor.Verdict, error) {
	caller, err := call.Caller()
	switch {
	case err != nil:
		return interceptor.Verdict{}, err
	case slices.Contains(g.closed, tool.Name):
		return interceptor.Deny(tool.Name + " is closed for " + caller.Principal.ID), nil
	case config.Only != "" && tool.Name != config.Only:
		return interceptor.Warn("not the tool of this task"), nil
	}
	return interceptor.Pass(), nil
}

func ExampleConfiguredValidator() {
	g := &guard{closed: []string{"delete_all"}}
	server, err := interceptor.New(nil, interceptor.ConfiguredValidator(interceptor.Descriptor{
		Name: "acme/guard", Hooks: interceptor.OnRequest(interceptor.EventToolsCall),
		DefaultConfig: jsonx.Value(`{"only":"read"}`),
	}, g.judge))
	if err != nil {
		fmt.Println(err)
		return
	}
	invoke := func(rest string) {
		result, err := server.Invoke(context.Background(), jsonx.Value(
			`{"name":"acme/guard","event":"tools/call","phase":"request","context":{"principal":{"type":"user","id":"ann"}},`+rest+`}`))
		messages, _ := jsonx.Lookup(result, "messages")
		fmt.Println(string(messages), err)
	}
	invoke(`"payload":{"name":"delete_all"}`)
	invoke(`"payload":{"name":"write"}`)
	invoke(`"payload":{"name":"write"},"config":{"only":"write"}`)
	invoke(`"payload":{"name":"write"},"config":{"max":1}`)
	// Output:
	// [{"message":"delete_all is closed for ann","severity":"error"}] <nil>
	// [{"message":"not the tool of this task","severity":"warn"}] <nil>
	//  <nil>
	//  JSON-RPC error -32602: Invalid params: config does not match configSchema
}
