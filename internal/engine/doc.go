// Package engine runs the embedded ClickHouse engine as a child process and speaks ClickHouse's HTTP interface with it.
//
//	parent                                   child: chaintrail engine
//	┌─────────────────────────┐  stdin       ┌─────────────────────────────────────────────┐
//	│ Supervisor              │─────────────▶│ Serve: ends when stdin does                 │
//	│  owns the listening     │  token (env) │   HTTP handler ── one session a statement   │
//	│  socket and the token   │  socket (fd) │        │                                    │
//	│                         │◀─────────────│   chdb: libchdb, one data directory         │
//	└─────────────────────────┘  ready line  └─────────────────────────────────────────────┘
//	 clickhouse-go/v2 ───────── http://127.0.0.1:PORT ──────────▲
//
// The engine is C++ and may fail hard, so that it never shares a process with the request path. The parent keeps the
// listening socket for its whole life: the address does not change when the child is started again, nobody else can
// take it meanwhile, and connections made in between wait until the new child accepts them.
//
// Every request gets a session of its own, as over HTTP with a real server: settings, current database and temporary
// tables never leak into the next request.
//
// # Failure behaviour
//
// At most MaxStatements run at once; as many as MaxWaiting wait for a place, and what comes then is refused with
// ClickHouse's code 202, which clients retry. A statement is killed when its client goes away, except an INSERT whose
// data has arrived completely: that one is finished. Rows of an INSERT that was answered survive kill -9 of the child.
package engine
