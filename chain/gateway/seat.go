package gateway

import (
	"context"
	"fmt"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// seat is one session's place at a shared server: a wire.Conn that looks as if the server was its
// own.
type seat struct {
	mux     *mux
	server  *muxServer
	lasting bool

	own       map[string]string // our ids by the client's; guarded by mux.mu
	gone      bool              // guarded by mux.mu
	reason    error             // why it ended, nil when closed; read after ended
	ended     chan struct{}
	listening chan struct{} // closed when to is set
	once      sync.Once
	to        func([]byte)
}

// peerVersion is that of the shared connection.
func (s *seat) peerVersion() string {
	if b, ok := s.server.conn.(*bridge); ok {
		return b.peerVersion()
	}
	return ""
}

// Receive implements wire.Conn.
func (s *seat) Receive(ctx context.Context, deliver func([]byte), _ func(error)) error {
	s.once.Do(func() {
		s.to = deliver
		close(s.listening)
	})
	select {
	case <-s.ended:
		return s.reason
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *seat) deliver(raw []byte) {
	select {
	case <-s.listening:
		s.to(raw)
	case <-s.ended:
	}
}

// Close implements wire.Conn: it gives the seat up. The server goes on.
func (s *seat) Close() error {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	s.leave(nil)
	return nil
}

// leave gives the seat up; the caller holds mux.mu.
func (s *seat) leave(reason error) {
	if s.gone {
		return
	}
	s.gone, s.reason = true, reason
	up := s.server
	delete(up.seats, s)
	for _, key := range s.own {
		if call := up.calls[key]; call != nil && call.method != methodInitialize { // others wait for that answer, too
			delete(up.calls, key)
		}
	}
	for id, other := range up.asked {
		if other == s {
			delete(up.asked, id)
		}
	}
	for uri, seats := range up.subs {
		if delete(seats, s); len(seats) == 0 {
			delete(up.subs, uri)
		}
	}
	close(s.ended)
}

// Send implements wire.Conn.
func (s *seat) Send(ctx context.Context, raw []byte, _ func([]byte)) error {
	msg, err := wire.Parse(raw, s.mux.lane.limits(true))
	if err != nil {
		return fmt.Errorf("send to shared server: %w", err)
	}
	var out []byte
	switch msg.Kind {
	case wire.KindRequest:
		var local []byte
		if out, local, err = s.request(&msg); err != nil {
			return err
		}
		if local != nil {
			s.deliver(local)
			return nil
		}
	case wire.KindNotification:
		out = s.notification(&msg)
	default:
		out = s.reply(&msg)
	}
	if out == nil {
		return nil
	}
	if err := s.server.conn.Send(ctx, out, nil); err != nil {
		return fmt.Errorf("send to shared server: %w", err)
	}
	return nil
}

// request registers a request and returns its form for the server, or the answer that needs none.
// Both are nil when the answer to another session's initialize is waited for.
func (s *seat) request(msg *wire.Message) (out, local []byte, err error) {
	m, up := s.mux, s.server
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.gone {
		return nil, nil, wire.ErrDisconnected
	}
	call := &muxCall{seat: s, id: msg.ID, method: msg.Method}
	switch msg.Method {
	case methodInitialize:
		switch up.hello {
		case helloDone:
			return nil, wire.NewResponse(msg.ID, up.result), nil
		case helloSent:
			up.waiting = append(up.waiting, call)
			return nil, nil, nil
		case helloNone:
			up.hello = helloSent
		}
	case methodSubscribe:
		if uri, ok := wire.MemberString(msg.Params, "uri"); ok {
			if up.subs[uri] == nil {
				up.subs[uri] = make(map[*seat]struct{})
			}
			up.subs[uri][s] = struct{}{}
		}
	case methodUnsubscribe:
		uri, _ := wire.MemberString(msg.Params, "uri")
		seats := up.subs[uri]
		if delete(seats, s); len(seats) > 0 {
			return nil, wire.NewResponse(msg.ID, jsonx.Value("{}")), nil // others still want it
		}
		delete(up.subs, uri)
	}
	id := up.number()
	sent := *msg
	if token := wire.MetaOf(msg.Params).ProgressToken; token != nil {
		call.token = token
		meta, _ := wire.Member(msg.Params, "_meta")
		meta = wire.WithMember(meta, wire.MetaProgressToken, id)
		sent = msg.WithParams(wire.WithMember(msg.Params, "_meta", meta))
	}
	up.calls[string(id)] = call
	s.own[wire.IDKey(msg.ID)] = string(id)
	return sent.WithID(id), nil, nil
}

// notification returns what the server is to get, nil for nothing.
func (s *seat) notification(msg *wire.Message) []byte {
	m, up := s.mux, s.server
	m.mu.Lock()
	defer m.mu.Unlock()
	switch msg.Method {
	case methodInitialized:
		if up.ready {
			return nil
		}
		up.ready = true
	case methodCancelled:
		id, _ := wire.Member(msg.Params, "requestId")
		key, ok := s.own[wire.IDKey(id)]
		if !ok {
			return nil
		}
		if call := up.calls[key]; call != nil {
			if call.method == methodInitialize {
				return nil // MCP: initialize cannot be cancelled, and others wait for its answer
			}
			up.forget(key, call)
		}
		out := msg.WithParams(wire.WithMember(msg.Params, "requestId", jsonx.Value(key)))
		return out.Raw
	}
	return msg.Raw
}

// reply returns an answer for the server if this seat was asked.
func (s *seat) reply(msg *wire.Message) []byte {
	m, up := s.mux, s.server
	m.mu.Lock()
	defer m.mu.Unlock()
	key := wire.IDKey(msg.ID)
	// A refusal that the gateway makes itself is for a request that was handed to this seat, too.
	if up.asked[key] != s {
		return nil
	}
	delete(up.asked, key)
	return msg.Raw
}
