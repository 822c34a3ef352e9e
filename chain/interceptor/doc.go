// Package interceptor is the server side of SEP-2624: descriptors, a small authoring API, and a
// [Server] that answers interceptors/list and interceptor/invoke in process, over stdio, over
// streamable HTTP, or installed on go-sdk servers. All ways give the same answers to the same bytes.
//
// An author writes a function, or a method of a struct that holds what it needs, and says what it is:
//
//	guard := interceptor.Validator(interceptor.Descriptor{
//		Name: "acme/guard", Hooks: interceptor.OnRequest(interceptor.EventToolsCall),
//	}, func(ctx context.Context, call *interceptor.Call) (interceptor.Verdict, error) { … })
//	server, err := interceptor.New(nil, guard)
//	err = server.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// The handler kinds differ in what they get and give:
//
//	Validator  Mutator  Sink                                 the payload raw
//	TypedValidator  TypedMutator  TypedSink                  the payload decoded
//	ConfiguredValidator  ConfiguredMutator  ConfiguredSink   payload and config decoded
//	ValidatorBool                                            a bool is the verdict
//
// Every handler gets the [Call]: payload, config, event, phase, and who made the operation
// ([Call.Caller]). What the transport knows of the invoker, such as the go-sdk session, headers and a
// verified token, is in ctx: see [RequestOf].
//
// A config schema is enforced. What it refuses, the handler never sees; what it has defaults for, the
// handler always gets.
package interceptor
