package sinks

import "time"

// limits say where a batch ends.
type limits struct {
	messages int
	bytes    int
}

// cut returns how many of the entries make the next batch, and whether that batch is full: more entries would not make
// it larger. A batch never holds messages of two months, so that it is one block of one partition in a store that
// partitions by month of publication.
func (l limits) cut(entries []Entry) (n int, full bool) {
	bytes := 0
	for i := range entries {
		if i > 0 && month(entries[i].Published) != month(entries[0].Published) {
			return i, true
		}
		bytes += len(entries[i].Data)
		if i > 0 && bytes > l.bytes {
			return i, true
		}
		if i+1 == l.messages {
			return i + 1, true
		}
	}
	return len(entries), bytes >= l.bytes
}

func month(t time.Time) int {
	t = t.UTC()
	return 12*t.Year() + int(t.Month())
}

// chunk is what one read brought.
type chunk struct {
	entries []Entry
	full    bool // the read ended at one of its bounds, not at the end of the stream
}

func newChunk(entries []Entry, most int) chunk {
	bytes := 0
	for i := range entries {
		bytes += len(entries[i].Data)
	}
	return chunk{entries: entries, full: len(entries) >= most || bytes >= chunkBytes/2}
}
