// Package wire is the JSON-RPC wire of MCP, for gateway and interceptor client alike: a raw envelope
// that splits only the top level of a message, line and HTTP codecs, and a lean client.
//
// A [Message] keeps the bytes that came. What is not changed is forwarded byte for byte; a changed
// params or result is spliced into the rest. Ids, unknown members, number spellings and member
// order survive.
//
//	raw ── Parse ──▶ Message ── WithParams ──▶ Raw ── LineConn / HTTPClient ──▶ peer
package wire
