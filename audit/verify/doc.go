// Package verify finds out whether an audit trail is whole and unchanged.
//
// A [Checker] is shown events in the order of their stream, and what stands beside them in tables and open items; it judges
// nothing but bytes, keys and heads, and does no I/O of its own. [Run] shows it a whole [Store].
//
//	sealed bytes ── hash ── link to the event before ── leaf ── root of each head ── signature
//	      └── every typed column, every commitment of an open item
//
// What a column must hold is written down here a second time, apart from the writer of the tables, so that a fault of the
// writer is found too. Heads from outside and keys from outside make the difference between "self-consistent" and "proven":
// whoever owns data and keys can make another trail that fits together.
//
// A [Proof] shows one event to somebody who has nothing but a public key.
package verify
