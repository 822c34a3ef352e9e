package schemas

import (
	"errors"
	"time"
)

// Message is one message of a stream at its position.
type Message struct {
	Position  uint64 // stream sequence, from 1
	Subject   string
	Header    map[string][]string // keys as sent, case-sensitive
	Data      []byte
	Published time.Time // the stream's time of storing, UTC
}

// ErrConflict is returned by a compare-and-set when another consumer was faster; the caller MUST stop.
var ErrConflict = errors.New("another consumer moved this cursor")
