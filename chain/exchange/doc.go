// Package exchange runs one operation after the other through a plan and records each: for callers that hold a request
// and can make it, such as an intercepting client, or a server's middleware.
//
//	Do ── request phase ── journal ──> next ──> response phase ── journal ──> result
//	         │                                        │
//	         └─ denied: journal the outcome, return a *chain.DeniedError
//
// Each exchange that was recorded to begin ends in exactly one recorded outcome, also when next fails, panics or is
// cancelled. With a [chain.Recorder], deferred work is done from the recorded events; without one, nothing is recorded,
// and a [chain.Background] does it in this process.
package exchange
