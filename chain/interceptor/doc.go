// Package interceptor is the server side of SEP-2624: descriptors, a small authoring API, and a
// [Server] that answers interceptors/list and interceptor/invoke in process, over stdio, over
// streamable HTTP, or installed on a go-sdk server. All ways give the same answers to the same bytes.
//
// An author writes a function and says what it is:
//
//	guard := interceptor.Validator(interceptor.Descriptor{
//		Name: "acme/guard", Hooks: interceptor.Both("tools/call"),
//	}, func(ctx context.Context, call *interceptor.Call) (interceptor.Verdict, error) { … })
//	server, err := interceptor.New(nil, guard)
//	err = server.ServeStdio(ctx, os.Stdin, os.Stdout)
package interceptor
