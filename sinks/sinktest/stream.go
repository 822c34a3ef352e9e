package sinktest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/sinks"
)

// Stream is a source that holds its messages in memory. It may be read by several readers, each with its own [Stream.Source].
type Stream struct {
	name string
	mu   sync.Mutex // covers the fields below
	msgs []sinks.Message
	more chan struct{} // closed and replaced when messages are added
}

// NewStream returns an empty stream.
func NewStream(name string) *Stream { return &Stream{name: name, more: make(chan struct{})} }

// Add appends messages; those without position get the next one.
func (s *Stream) Add(msgs ...sinks.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range msgs {
		last := uint64(0)
		if n := len(s.msgs); n > 0 {
			last = s.msgs[n-1].Position
		}
		if m.Position <= last {
			m.Position = last + 1
		}
		if m.Published.IsZero() {
			m.Published = time.Now().UTC().Truncate(time.Microsecond)
		}
		s.msgs = append(s.msgs, m)
	}
	close(s.more)
	s.more = make(chan struct{})
}

// Last is the position of the newest message.
func (s *Stream) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.msgs) == 0 {
		return 0
	}
	return s.msgs[len(s.msgs)-1].Position
}

// Trim removes the messages up to a position.
func (s *Stream) Trim(upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.msgs = slices.DeleteFunc(s.msgs, func(m sinks.Message) bool { return m.Position <= upTo })
}

// Source reads the stream. Fault, when set, is asked before each read; its error is returned instead of messages.
type Source struct {
	Stream *Stream
	Fault  func(after uint64) error
	// Empty makes every other read return nothing at once, as a source may when its position was trimmed.
	Empty bool
	reads int
}

// Name implements sinks.Source.
func (s *Source) Name() string { return s.Stream.name }

// Read implements sinks.Source.
func (s *Source) Read(ctx context.Context, after uint64, maxMessages, maxBytes int) ([]sinks.Message, error) {
	s.reads++
	if s.Fault != nil {
		if err := s.Fault(after); err != nil {
			return nil, err
		}
	}
	if s.Empty && s.reads%2 == 0 {
		return nil, ctx.Err()
	}
	for {
		out, more := s.Stream.after(after, maxMessages, maxBytes)
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Stream) after(after uint64, maxMessages, maxBytes int) ([]sinks.Message, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.msgs, after+1, func(m sinks.Message, p uint64) int {
		switch {
		case m.Position < p:
			return -1
		case m.Position > p:
			return 1
		default:
			return 0
		}
	})
	var out []sinks.Message
	size := 0
	for ; i < len(s.msgs) && len(out) < maxMessages && size < maxBytes; i++ {
		out = append(out, s.msgs[i])
		size += len(s.msgs[i].Data)
	}
	return out, s.more
}

// Cursors keeps values by compare-and-set in memory.
type Cursors struct {
	// OnPut, when set, is called before each put with the number of puts so far; an error is returned to the caller, with
	// the value stored first when after is true.
	OnPut func(n int, value []byte) (after bool, err error)

	mu       sync.Mutex // covers the fields below
	values   map[string][]byte
	revision map[string]uint64
	next     uint64
	puts     int
}

// Get implements sinks.Cursors.
func (c *Cursors) Get(_ context.Context, key string) ([]byte, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.values[key]), c.revision[key], nil
}

// Put implements sinks.Cursors.
func (c *Cursors) Put(_ context.Context, key string, value []byte, revision uint64) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.puts++
	var fault error
	if c.OnPut != nil {
		after, err := c.OnPut(c.puts, value)
		if err != nil && !after {
			return 0, err
		}
		fault = err
	}
	if c.revision[key] != revision {
		return 0, sinks.ErrConflict
	}
	if c.values == nil {
		c.values, c.revision = map[string][]byte{}, map[string]uint64{}
	}
	c.next++
	c.values[key], c.revision[key] = bytes.Clone(value), c.next
	return c.next, fault
}

// Letters keeps dead letters in memory, the newest of each position.
type Letters struct {
	mu  sync.Mutex
	got map[uint64]sinks.Letter
}

// Put implements sinks.DeadLetters.
func (l *Letters) Put(_ context.Context, letter sinks.Letter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.got == nil {
		l.got = map[uint64]sinks.Letter{}
	}
	l.got[letter.Position] = letter
	return nil
}

// Reasons returns the reason of each dead letter by position.
func (l *Letters) Reasons() map[uint64]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[uint64]string{}
	for position, letter := range l.got {
		out[position] = letter.Reason
	}
	return out
}
