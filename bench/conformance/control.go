package main

import (
	"context"
	"os"

	"github.com/chaintrail/chaintrail/chain/interceptor"
)

// serveDenyAll serves the negative control: a validator that blocks every tools/call request.
func serveDenyAll(ctx context.Context) error {
	server, err := interceptor.New(nil, interceptor.Validator(
		interceptor.Descriptor{Name: "control/deny-all", Hooks: interceptor.OnRequest("tools/call")},
		func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
			return interceptor.Deny("denied by the control"), nil
		},
	))
	if err != nil {
		return err
	}
	return server.ServeStdio(ctx, os.Stdin, os.Stdout)
}
