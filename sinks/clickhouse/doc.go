// Package clickhouse stores streams in ClickHouse, each event exactly once.
//
// A [Writer] moves one stream. What it will insert is announced first: the range of positions with a digest of its
// contents goes by compare-and-set into the cursor of the stream. Then each table gets one insert whose deduplication
// token names stream, range and table; then the cursor says done. Whoever finds an announced range repeats it
// exactly, and ClickHouse drops what it already has. A writer that loses a compare-and-set stops.
//
//	cursor: intent{first,last,sha256} ── insert events, interceptions, … (token) ── cursor: done
//
// An insert whose outcome is not known is repeated identically, for ever. Only when ClickHouse says that the data
// itself is wrong is the block halved, deterministically, until the culprit is found and dead-lettered; the halves have
// tokens of their own, so that a repetition makes the same cuts.
//
// Events go to events (the sealed bytes), interceptions, invocations and plans; open items to open_items and bodies.
// Every table but events is a projection that can be made anew; exchanges is a view of the interceptions that end one.
package clickhouse
