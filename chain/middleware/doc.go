// Package middleware runs interceptors inside a Go MCP server, as receiving middleware of the go-sdk.
//
//	client ──> validate ─> mutate ─> journal ──> handler
//	       <── journal <─ validate <─ mutate <──
//
// A server receives a request and sends a response: the request phase validates, then mutates, the response phase
// mutates, then validates (SEP-2624). This is the pair that a gateway, which stands on the client's side, does not have.
//
// A changed payload is decoded into a fresh value, so that what an interceptor removed is gone; _meta stays unless the
// payload brings its own. Whoever is denied in either phase gets a JSON-RPC error with the code and data of SEP-2624. A
// handler that fails, or has no result, ends the exchange without a response phase. Methods that were added to the server
// take part under their names.
//
// With a [chain.Recorder] each exchange is journaled as the gateway does it, request before handler and outcome before
// answer, and deferred work is done from there. Without one, a [chain.Background] does it in this process.
//
// What differs from the middleware of the reference Go SDK: "*" and "tools/*" match; ping, server/discover and
// subscriptions/listen are left out; a payload is replaced, not merged into the old one; deferred interceptors never
// hold up the answer; the top-level severity of a verdict counts, and flat results are understood; a denial leaks no
// payload.
//
// What the go-sdk's typed values lose (members that it does not know, integers above 2^53 in untyped places) is lost
// before an interceptor sees it; content of unknown types fails. Notifications are handled on the SDK's reading
// goroutine: a slow interceptor there holds the session up. For a path without these limits use chain/gateway.
package middleware
