package clickhouse

import "github.com/chaintrail/chaintrail/sinks"

// NewSink is the storing side of a writer, for the contract suite.
func NewSink(config Config) sinks.Sink { return newSink(config) }
