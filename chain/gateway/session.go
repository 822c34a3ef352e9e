package gateway

import (
	"container/list"
	"context"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// session is what is remembered of one MCP session: who it is, what it negotiated, which exchanges
// are open. The table of open exchanges outlives the HTTP request that began them.
type session struct {
	id        string // empty: the transport has none
	pseudonym seal.Pseudonym
	limit     int
	peer      func() string // protocol version of a server of another generation, else empty; nil: there is none

	mu      sync.Mutex // guards what follows
	version string     // negotiated protocol version
	client  clientInfo
	open    [2]map[string]*exchange // by direction, by wire.IDKey
	done    [2]replayTable
	idle    chan struct{} // closed when the client's requests have ended; nil: nobody waits
}

type clientInfo struct{ name, version string }

func newSession(id string, key *seal.Key, limit int) *session {
	return &session{id: id, pseudonym: key.Pseudonym("session", id), limit: limit}
}

// peerVersion is the protocol version of the server where it is another than the client's.
func (s *session) peerVersion() string {
	if s.peer == nil {
		return ""
	}
	return s.peer()
}

// learn keeps what the answer to initialize negotiated.
func (s *session) learn(version string, client clientInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != "" {
		s.version = version
	}
	if client.name != "" {
		s.client = client
	}
}

func (s *session) negotiated() (string, clientInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.client
}

// enter adds x to the open exchanges of its direction.
func (s *session) enter(x *exchange) error {
	key := wire.IDKey(x.msg.ID)
	side := sideOf(x.reverse)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, used := s.open[side][key]; used {
		return errReusedID
	}
	if len(s.open[side]) >= s.limit {
		return errOverloaded
	}
	if s.open[side] == nil {
		s.open[side] = make(map[string]*exchange, 4)
	}
	s.open[side][key] = x
	s.done[side].forget(key)
	return nil
}

// leave removes x; it is a no-op when x is not there.
func (s *session) leave(x *exchange) {
	key := wire.IDKey(x.msg.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.open[sideOf(x.reverse)]; m[key] == x {
		delete(m, key)
	}
	if s.idle != nil && len(s.open[0]) == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// waitIdle returns when no request of the client is open, or when ctx is done.
func (s *session) waitIdle(ctx context.Context) {
	s.mu.Lock()
	if len(s.open[0]) == 0 {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// find returns the open exchange with the id, or nil.
func (s *session) find(id jsonx.Value, reverse bool) *exchange {
	key := wire.IDKey(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[sideOf(reverse)][key]
}

// all returns the open exchanges of both directions.
func (s *session) all() []*exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*exchange
	for _, m := range s.open {
		for _, x := range m {
			out = append(out, x)
		}
	}
	return out
}

func sideOf(reverse bool) int {
	if reverse {
		return 1
	}
	return 0
}

// sessionTable remembers the sessions of a backend, the least recently used of which is forgotten
// first. A forgotten session goes on working: only its names are missing in later events.
type sessionTable struct {
	mu    sync.Mutex // guards both
	byID  map[string]*list.Element
	order *list.List // of *session, most recent first
	max   int
}

func newSessionTable(limit int) *sessionTable {
	return &sessionTable{byID: make(map[string]*list.Element), order: list.New(), max: limit}
}

// get returns the session with the id, made by the given function when it is new.
func (t *sessionTable) get(id string, create func() *session) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byID[id]; ok {
		t.order.MoveToFront(e)
		return e.Value.(*session)
	}
	s := create()
	t.byID[id] = t.order.PushFront(s)
	if t.order.Len() > t.max {
		t.evict()
	}
	return s
}

func (t *sessionTable) has(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byID[id]
	return ok
}

// evict forgets an old session, if it can one in which nothing is open: a client that makes up
// session ids must not cut off others from their open requests.
func (t *sessionTable) evict() {
	victim := t.order.Back()
	for e, tries := victim, 0; e != nil && tries < 32; e, tries = e.Prev(), tries+1 {
		if len(e.Value.(*session).all()) == 0 {
			victim = e
			break
		}
	}
	delete(t.byID, t.order.Remove(victim).(*session).id)
}

// remove forgets a session and returns it, or nil.
func (t *sessionTable) remove(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byID[id]
	if !ok {
		return nil
	}
	delete(t.byID, id)
	return t.order.Remove(e).(*session)
}
