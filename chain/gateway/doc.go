// Package gateway stands between MCP clients and MCP servers: it takes every request of both
// directions through the interceptors in force, and journals it before it has an effect.
//
// It works on JSON-RPC messages, not on typed sessions: what no interceptor changed is forwarded
// byte for byte, whatever it is.
//
//	                 ┌───────────────── lane: one backend ─────────────────┐
//	client ── front ─┤ exchange: admit → forward → settle, or end           ├─ back ── server
//	   HTTP or stdio │ plan (request, sending)    plan (response, receiving)│  HTTP or stdio child
//	                 └───────────────────── Recorder ──────────────────────┘
//
// HTTP to HTTP is a relay: one upstream call per client call, headers, status and event ids kept.
// The other three combinations run over a [link]: two ports, one at each end, that carry messages. So does a
// client of another protocol generation than its server, with a [bridge] at the server's end that translates.
//
// Use. [New] makes a gateway of [Options]; its [Gateway.Handler] goes on any mux, [Gateway.Run] serves standard
// input and output. [Gateway.Reload] puts other backends and [Rules] in force while it serves; a [Resolver] chooses
// further interceptor servers for each request. Drain, then Close.
//
// Contract. A request event is recorded before the first byte goes to the other side, the outcome
// before the answer goes to the caller. Every exchange has exactly one outcome event. When the
// recorder fails, nothing is forwarded, and no result is answered.
//
// Failure behaviour. A backend that is lost ends its open exchanges with outcome error and cause
// backend_lost. More than Options.MaxOpen exchanges at a time are refused, and recorded as denied.
package gateway
