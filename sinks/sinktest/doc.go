// Package sinktest is the contract suite that every sink passes, with the stream, the cursors and the events that its
// tests need. They keep the contracts of package sinks in memory, with the faults that a test asks for; they stand for no
// server.
package sinktest
