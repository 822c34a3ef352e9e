// Package bus carries journaled events to NATS JetStream and from there to whoever works on them.
//
//	journal ─ Publisher ─► CHAINTRAIL_OPEN_<n>  open items      ─► Reader, OpenItems
//	                   └─► CHAINTRAIL_<n>       sealed events   ─► Reader, Work
//
// Publishing keeps order and is idempotent by position: each publish names the stream sequence of the
// writer's last message, so that a replay, however late, is refused by the server. After an unknown
// outcome the publisher asks for its writer's last message and goes on after it.
//
// Reading is by stream position, never by acknowledgement; what a reader has done is its cursor, kept
// by compare-and-set in [Cursors]. Only deferred work, where the order across sessions does not
// matter, uses durable consumers ([Work]).
//
// Streams have limits retention and refuse new messages when full: nothing is ever overwritten. A
// [Trimmer] frees what every required reader has passed.
//
// Failure behaviour: while NATS is away or a stream is full, the publisher repeats for ever and the
// journal grows; readers wait; nothing is dropped. Memory is bounded by the batch sizes.
package bus
