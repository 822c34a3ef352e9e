// Package deferred runs sinks and audit-mode interceptors after the fact, from the stream of events.
//
//	Source ── Job ──> Worker (one for each interceptor)
//	                    ├─ lane per session: in order     ──> Caller.Call, with retries
//	                    └─ lanes side by side, bounded    ──> invocation event, journaled ──> Ack
//
// A [Worker] takes every request and outcome event that hands an invocation to its interceptor,
// rebuilds the call with the true payload and the context of its time, and records the one final
// result as an event of its own. A [Manager] keeps a worker for every interceptor that the plans in
// force defer work to.
//
// # One final result
//
// A job is acknowledged only after its result is journaled. A crash between the two hands the job out
// again: the interceptor is invoked a second time, with the same io.chaintrail/invocationId as
// idempotency key, and a second result event is journaled. Both carry the same invocation id (a hash of interception,
// host, interceptor and version), and readers MUST take the first in stream order and skip the rest:
// the ClickHouse table of invocations is keyed by that id. Within one process a worker remembers the
// ids of its last results, so that a lost acknowledgement makes no second event at all.
//
// # Failure behaviour
//
// A job that cannot be read or journaled waits, and is tried again until the context ends; it then
// goes back to the stream. An invocation that fails is tried again as its plan says and within
// [WorkerOptions.Deadline]; then the failure itself is its final result: a dead letter for the
// invocation, never for the event. An interceptor whose time budget is used up is not invoked and not tried
// again: the invocation is recorded as skipped. While an interceptor server is away nothing is sent, so nothing
// fails, and its backlog waits. Jobs in hand are bounded by [WorkerOptions.MaxPending]; a full
// worker takes no more, and the backlog stays in the stream.
package deferred
