package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// Bounds of what a session keeps for its HTTP client, with or without a connection.
const (
	maxBacklog   = 256     // messages of one stream that wait for a connection
	maxUnwritten = 16      // messages that wait to be written where there is a connection
	maxKept      = 256     // messages kept to be fetched again, all streams of a session together
	maxKeptBytes = 4 << 20 // likewise
)

var errNoStream = errors.New("the client has no stream open")

// httpPort is the client's end of a link over HTTP: a stream for each POST, and one for the GET. Each
// message goes to exactly one of them: progress to the POST of its request, everything else to the
// GET stream, or to a connected POST while there is none.
//
// Failure behaviour: a stream outlives its connection. What was written is kept for a client that
// comes back with Last-Event-ID, the oldest message of all streams making room for the next; what
// waits for a connected client is never dropped, but what a client left behind is.
type httpPort struct {
	keep bool // a client can come back: there is a session

	mu      sync.Mutex // guards what follows, and every stream
	streams []*stream  // in order of their numbers; the first is that of the GET
	next    uint64     // number of the next stream
	kept    []*stream  // of each message kept, oldest first
	bytes   int        // of them
	closed  bool
}

func newHTTPPort(keep bool) *httpPort {
	p := &httpPort{keep: keep}
	p.add("")
	return p
}

// add makes a stream; the caller holds p.mu, or is the only one to know p.
func (p *httpPort) add(token string) *stream {
	s := &stream{number: p.next, token: token, next: 1, wake: make(chan struct{})}
	p.next++
	p.streams = append(p.streams, s)
	return s
}

// open makes the stream of a POST, with the connection that it came by.
func (p *httpPort) open(msg *wire.Message) (*stream, *reader) {
	token := ""
	if t := wire.MetaOf(msg.Params).ProgressToken; t != nil {
		token = wire.IDKey(t)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.add(token)
	s.by = &reader{}
	return s, s.by
}

func (p *httpPort) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if s.by != nil {
			return true
		}
	}
	return false
}

// deliver implements clientPort.
func (p *httpPort) deliver(ctx context.Context, msg *wire.Message) error {
	for {
		full, ok := p.route(msg)
		if !ok {
			return errNoStream
		}
		if full == nil {
			return nil
		}
		select {
		case <-full: // route it anew
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// route puts a message where it belongs. When there is no room it returns the channel that tells of
// a change.
func (p *httpPort) route(msg *wire.Message) (full <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	to := p.target(msg)
	if to == nil {
		return nil, false // its request is over: MCP wants no progress then
	}
	switch waits := to.unwritten(); {
	case to.number > 0 && to.by != nil && waits >= maxUnwritten:
		return to.wake, true
	case waits >= maxBacklog:
		return nil, false
	}
	p.put(to, message{raw: msg.Raw})
	return nil, true
}

func (p *httpPort) target(msg *wire.Message) *stream {
	if msg.Method == methodProgress {
		token, _ := wire.Member(msg.Params, "progressToken")
		for _, s := range p.streams[1:] {
			if s.token == "" || s.ended || s.token != wire.IDKey(token) {
				continue
			}
			if s.by == nil && !s.named {
				return nil // nobody can ask for it
			}
			return s
		}
		return nil
	}
	if p.streams[0].by == nil {
		for i := len(p.streams) - 1; i > 0; i-- {
			if s := p.streams[i]; s.by != nil && !s.ended {
				return s
			}
		}
	}
	return p.streams[0]
}

// final ends the stream of a POST with its answer; nil when none will come.
func (p *httpPort) final(s *stream, raw []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if s.by == nil && !s.named {
		p.remove(s) // nobody can ask for it
		return
	}
	p.put(s, message{raw: raw, final: true})
}

// put appends a message; the caller holds p.mu.
func (p *httpPort) put(s *stream, m message) {
	m.seq = s.next
	s.next++
	s.log = append(s.log, m)
	p.kept = append(p.kept, s)
	p.bytes += len(m.raw)
	p.makeRoom()
	s.changed()
}

// makeRoom drops the oldest messages that nobody is about to be sent; the caller holds p.mu.
func (p *httpPort) makeRoom() {
	limit, bytes := maxKept, maxKeptBytes
	if !p.keep {
		limit, bytes = 0, 0
	}
	for i := 0; i < len(p.kept) && (len(p.kept) > limit || p.bytes > bytes); {
		s := p.kept[i]
		if s.waits() {
			i++
			continue
		}
		p.kept = append(p.kept[:i], p.kept[i+1:]...)
		p.bytes -= len(s.log[0].raw)
		s.log[0] = message{}
		s.log = s.log[1:]
		if s.ended && len(s.log) == 0 && s.by == nil {
			p.remove(s)
		}
	}
}

// remove forgets the stream of a POST; the caller holds p.mu.
func (p *httpPort) remove(s *stream) {
	for i, other := range p.streams {
		if other == s && i > 0 {
			p.streams = append(p.streams[:i], p.streams[i+1:]...)
			break
		}
	}
	left := p.kept[:0]
	for _, other := range p.kept {
		if other != s {
			left = append(left, other)
		}
	}
	p.kept = left
	for _, m := range s.log {
		p.bytes -= len(m.raw)
	}
	s.log = nil
}

// shut refuses further messages of the server, and lets the GET stream end. POSTs end with their
// answers.
func (p *httpPort) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.streams {
		s.changed()
	}
}

// end ends every stream: no answer will come any more.
func (p *httpPort) end() {
	p.shut()
	p.mu.Lock()
	rest := append([]*stream(nil), p.streams[1:]...)
	p.mu.Unlock()
	for _, s := range rest {
		p.final(s, nil)
	}
}
