package gateway

import (
	"bytes"
	"crypto/sha256"
)

// A response can come twice: the server replays it on a resumed stream because the client may not
// have got it. The exchange has its outcome by then; the same bytes get the same answer again.
const (
	maxReplays     = 32       // answers remembered for each session and direction
	maxReplayBytes = 64 << 10 // size of an answer that differs from what the server sent
)

type replay struct {
	key    string
	digest [sha256.Size]byte // of the response as it came
	answer []byte            // what was answered; nil: the response itself
}

// replayTable is a ring of finished exchanges. Not safe for concurrent use.
type replayTable struct {
	ring []replay
	next int
}

func (t *replayTable) add(key string, raw, answer []byte) {
	if bytes.Equal(raw, answer) {
		answer = nil
	} else if len(answer) > maxReplayBytes {
		return
	}
	r := replay{key: key, digest: sha256.Sum256(raw), answer: answer}
	if len(t.ring) < maxReplays {
		t.ring = append(t.ring, r)
		return
	}
	t.ring[t.next] = r
	t.next = (t.next + 1) % maxReplays
}

// find returns the answer that the same response got before.
func (t *replayTable) find(key string, raw []byte) ([]byte, bool) {
	for i := range t.ring {
		if r := &t.ring[i]; r.key == key && r.digest == sha256.Sum256(raw) {
			if r.answer == nil {
				return raw, true
			}
			return r.answer, true
		}
	}
	return nil, false
}

// forget drops what is known of an id that is used again.
func (t *replayTable) forget(key string) {
	for i := range t.ring {
		if t.ring[i].key == key {
			t.ring[i] = replay{}
		}
	}
}
