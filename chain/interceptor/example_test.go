package interceptor_test

import (
	"context"
	"fmt"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func Example() {
	guard := interceptor.Validator(interceptor.Descriptor{
		Name: "acme/guard", Hooks: interceptor.OnRequest("tools/call"),
	}, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
		if tool, _ := wire.MemberString(call.Payload, "name"); tool == "delete_all" {
			return interceptor.Deny("this tool is closed"), nil
		}
		return interceptor.Pass(), nil
	})
	server, err := interceptor.New(nil, guard) // then ServeStdio, HTTPHandler, or Install
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := server.Invoke(context.Background(), jsonx.Value(
		`{"name":"acme/guard","event":"tools/call","phase":"request","payload":{"name":"delete_all"}}`))
	valid, _ := wire.Member(result, "valid")
	messages, _ := wire.Member(result, "messages")
	fmt.Println(string(valid), string(messages), err)
	// Output: false [{"message":"this tool is closed","severity":"error"}] <nil>
}
