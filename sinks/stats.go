package sinks

import (
	"sync"
	"time"
)

// Stats is how far a pipeline is. Counters are since its start.
type Stats struct {
	Position    uint64    // stored or dead-lettered up to here
	Read        uint64    // position of the newest message read
	Published   time.Time // when the newest stored message was published; zero before the first
	StoredAt    time.Time // when it was stored
	Batches     uint64
	Stored      uint64 // entries
	Transient   uint64 // entries that no sink keeps
	Duplicates  uint64 // entries that were stored before
	Holes       uint64 // numbers of writers that were missing when a later one came
	Forks       uint64 // entries with the number of another one: an alarm
	Undecodable uint64
	Repeated    uint64 // open ranges repeated at the start
}

// counters guards Stats.
type counters struct {
	mu sync.Mutex
	s  Stats
}

func (c *counters) update(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.s)
}

func (c *counters) get() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s
}
