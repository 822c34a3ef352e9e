package main

import (
	"bytes"
	"context"
	"os"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// serveInterceptors serves a validator and a mutator in the path, an audit-mode validator and a sink
// out of it, on standard input and output.
func serveInterceptors(ctx context.Context) error {
	server, err := interceptor.New(nil,
		interceptor.Validator(interceptor.Descriptor{Name: "crash/pass", Hooks: interceptor.Both("tools/call")},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) { return interceptor.Pass(), nil }),
		interceptor.Mutator(interceptor.Descriptor{Name: "crash/shout", Hooks: interceptor.OnRequest("tools/call")},
			func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
				return interceptor.Mutation{Modified: true, Payload: bytes.Replace(call.Payload, []byte(`"hello"`), []byte(`"HELLO"`), 1)}, nil
			}),
		interceptor.Validator(interceptor.Descriptor{Name: "crash/shadow", Mode: schemas.ModeAudit, Hooks: interceptor.OnRequest("tools/call")},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				return interceptor.Deny("would block"), nil
			}),
		interceptor.Sink(interceptor.Descriptor{Name: "crash/sink", Hooks: interceptor.OnResponse("tools/call")},
			func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				return interceptor.Receipt{Recorded: true}, nil
			}),
	)
	if err != nil {
		return err
	}
	return server.ServeStdio(ctx, os.Stdin, os.Stdout)
}
