package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
)

const (
	maxBacklog   = 256 // messages that wait for a GET stream
	maxPostQueue = 16  // messages that wait to be written to a POST's stream
)

var errNoStream = errors.New("the client has no stream open")

// httpPort is the client's end of a link over HTTP: open POSTs, and a queue for the GET stream. Each
// message goes to exactly one of them: progress to the POST of its request, everything else to the
// GET stream, or to an open POST while there is none.
type httpPort struct {
	mu      sync.Mutex // guards what follows
	posts   []*postStream
	stream  bool // a GET stream is open
	closed  bool
	backlog [][]byte
	wake    chan struct{} // closed when the backlog or closed changed
}

func newHTTPPort() *httpPort { return &httpPort{wake: make(chan struct{})} }

// postStream is a POST that waits for its answer.
type postStream struct {
	token string // wire.IDKey of its progress token
	queue chan postMessage
	gone  chan struct{} // closed when nobody writes any more
	once  sync.Once
}

type postMessage struct {
	raw   []byte
	final bool
}

func (p *httpPort) open(msg *wire.Message) *postStream {
	s := &postStream{queue: make(chan postMessage, maxPostQueue), gone: make(chan struct{})}
	if token := wire.MetaOf(msg.Params).ProgressToken; token != nil {
		s.token = wire.IDKey(token)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts = append(p.posts, s)
	return s
}

func (p *httpPort) leave(s *postStream) {
	s.once.Do(func() { close(s.gone) })
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.posts {
		if other == s {
			p.posts = append(p.posts[:i], p.posts[i+1:]...)
			return
		}
	}
}

func (p *httpPort) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.posts) > 0 || p.stream
}

// deliver implements clientPort.
func (p *httpPort) deliver(ctx context.Context, msg *wire.Message) error {
	for {
		s, ok := p.route(msg)
		if !ok {
			return errNoStream
		}
		if s == nil {
			return nil
		}
		select {
		case s.queue <- postMessage{raw: msg.Raw}:
			return nil
		case <-s.gone: // route it anew
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// route finds the POST for a message; with a nil one the message was put in the backlog.
func (p *httpPort) route(msg *wire.Message) (s *postStream, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	if msg.Method == methodProgress {
		token, _ := wire.Member(msg.Params, "progressToken")
		for _, s := range p.posts {
			if s.token != "" && s.token == wire.IDKey(token) {
				return s, true
			}
		}
		return nil, false // its request is over: MCP wants no progress then
	}
	if !p.stream && len(p.posts) > 0 {
		return p.posts[len(p.posts)-1], true
	}
	if len(p.backlog) >= maxBacklog {
		return nil, false
	}
	p.backlog = append(p.backlog, msg.Raw)
	p.notify()
	return nil, true
}

func (p *httpPort) notify() {
	close(p.wake)
	p.wake = make(chan struct{})
}

func (p *httpPort) claimStream() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream || p.closed {
		return false
	}
	p.stream = true
	return true
}

func (p *httpPort) releaseStream() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stream = false
}

// next takes the first message of the backlog, or the channel that tells of another.
func (p *httpPort) next() (raw []byte, wake <-chan struct{}, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.backlog) > 0 {
		raw = p.backlog[0]
		p.backlog = p.backlog[1:]
	}
	return raw, p.wake, !p.closed
}

func (p *httpPort) putBack(raw []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backlog = append([][]byte{raw}, p.backlog...)
}

// shut ends the GET stream and refuses further messages. Open POSTs end with their answers.
func (p *httpPort) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.notify()
	}
}

// final takes the answer of the POST; nil when none will come.
func (s *postStream) final(raw []byte) {
	select {
	case s.queue <- postMessage{raw: raw, final: true}:
	case <-s.gone:
	}
}

// serve writes what comes until the answer; false means that the client left before.
func (s *postStream) serve(v *visit, ended <-chan struct{}) bool {
	var out *wire.SSEWriter
	for {
		var m postMessage
		select {
		case m = <-s.queue:
		case <-v.r.Context().Done():
			return false
		case <-ended: // the session ended; its answer is in the queue, or there is none
			select {
			case m = <-s.queue:
			default:
				m.final = true
			}
		}
		if out == nil {
			if m.final {
				v.write(answerOf(m.raw))
				return true
			}
			startStream(v.w)
			out = wire.NewSSEWriter(v.w)
		}
		if m.raw != nil {
			if err := out.Write(wire.Event{Data: m.raw}); err != nil {
				return false
			}
		}
		if m.final {
			return true
		}
	}
}

// answerOf finds the error code that decides the HTTP status.
func answerOf(raw []byte) answer {
	a := answer{raw: raw}
	if raw == nil {
		return a
	}
	if msg, err := wire.Parse(raw, wire.Limits{Lenient: true}); err == nil {
		if rpc := msg.RPCError(); rpc != nil {
			a.code = rpc.Code
			if cause, ok := wire.MemberString(rpc.Data, "cause"); ok && (cause == causeAuditFull || cause == causeAuditFailed) {
				a.status, a.retry = 503, true
			}
		}
	}
	return a
}
