// Package kit tests interceptors on files of payloads.
//
//	var _ = flag.Bool("update", false, "write what happens into the files")
//
//	func TestGuard(t *testing.T) { kit.Run(t, guard(), "testdata/guard*") }
//
// A file is one of three kinds, by its ending:
//
//   - .txtar: sections in this order, the last two as often as needed. call.json is optional and holds what is said of the
//     payloads after it: event (tools/call if left out), phase (request if left out), config, context, _meta, timeoutMs.
//     payload.json is what the interceptor is given. want is what it answers, as text.
//   - .json: the params of one interceptor/invoke; want is in a file beside it, with .want added to the name.
//   - .jsonl: a recording, made by a [Recorder]. Each invocation of this interceptor has to be answered as it was.
//
// want says the verdict and its messages, or what differs in the payload:
//
//	valid false error
//	error arguments.path "outside of the house"
//
//	modified true
//	~ payload.arguments.text "a secret" -> "a [gone]"
//	+ payload.arguments.safe true
//	- payload.arguments.token "t"
//
// [RunServer] does the same with a server behind a connection, in whatever language it is written.
//
// With go test -update it is written into the file: read the difference. The test binary has that flag only if the test
// declares it, as above.
package kit
