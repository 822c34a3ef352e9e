package chain

import (
	"context"
	"sync"
)

// Sharing lets several sets use one connection to the same interceptor server, so that a set that takes the place of
// another one does not start servers that run already. All methods are concurrent; the zero value is ready.
type Sharing struct {
	mu     sync.Mutex // covers places, and their users
	places map[string]*place
}

// place is one server.
type place struct {
	users   int        // leases, and who waits for opening
	opening sync.Mutex // held while open runs; covers current
	current *shared
}

// shared is a connection with its users.
type shared struct {
	Conn
	leases int  // covered by Sharing.mu
	closed bool // covered by Sharing.mu: the last lease was given up
}

// lease is one user's hold of a shared connection.
type lease struct {
	*shared
	sharing *Sharing
	id      string
	once    sync.Once
	err     error
}

// Connect returns a function for [HostSpec] that opens a connection with the identity only where there is none. The
// identity MUST tell apart whatever is not reached and configured alike. The connection is closed with its last user.
// A set that connects for a second time has lost the first connection: it gets another one.
func (s *Sharing) Connect(id string, open func(ctx context.Context) (Conn, error)) func(ctx context.Context) (Conn, error) {
	var last *shared // HostSpec.Connect is called one at a time
	return func(ctx context.Context) (Conn, error) {
		p := s.enter(id)
		p.opening.Lock()
		defer p.opening.Unlock()
		if p.current == nil || p.current == last || isLost(p.current) || !s.hold(p.current) {
			conn, err := open(ctx)
			if err != nil {
				s.leave(id, nil)
				return nil, err
			}
			p.current = &shared{Conn: conn, leases: 1}
		}
		last = p.current
		return &lease{shared: last, sharing: s, id: id}, nil
	}
}

func (s *Sharing) enter(id string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[id]
	if p == nil {
		p = &place{}
		if s.places == nil {
			s.places = map[string]*place{}
		}
		s.places[id] = p
	}
	p.users++
	return p
}

// hold takes one more lease on a connection, unless it is closed.
func (s *Sharing) hold(c *shared) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.closed {
		c.leases++
	}
	return !c.closed
}

// leave gives up a place, and a lease on a connection if it is not nil; it reports whether that was the last one.
func (s *Sharing) leave(id string, c *shared) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c != nil {
		c.leases--
		last = c.leases == 0
		c.closed = last
	}
	p := s.places[id]
	if p.users--; p.users == 0 {
		delete(s.places, id)
	}
	return last
}

func isLost(c Conn) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// Close implements [Conn]: it gives the lease up.
func (l *lease) Close() error {
	l.once.Do(func() {
		if l.sharing.leave(l.id, l.shared) {
			l.err = l.Conn.Close()
		}
	})
	return l.err
}
