package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// hub serves HTTP clients of a stdio server: it makes the sessions that the server does not know.
// Each session has a child of its own, or with Backend.Shared a seat at one child for all. Requests
// of protocol 2026-07-28, which has no sessions, always share a child of their own.
type hub struct {
	lane  *lane
	life  *life
	mux   *mux // of sessions
	apart *mux // of requests without one

	mu       sync.Mutex // guards what follows
	sessions map[string]*hubSession
	streams  map[string]*sseSession // those of 2024-11-05
	starting int                    // admitted, and not among the sessions
}

func newHub(l *lane, lf *life) *hub {
	return &hub{lane: l, life: lf, mux: newMux(l, lf), apart: newMux(l, lf), sessions: make(map[string]*hubSession), streams: make(map[string]*sseSession)}
}

// ServeHTTP implements http.Handler.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, ok := h.lane.newVisit(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(r.Context(), v)
	case http.MethodGet:
		s := h.session(r.Header.Get(wire.HeaderSessionID))
		if s == nil {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		v.session = s.link.session
		v.version, _ = v.session.negotiated()
		s.serveStream(r.Context(), v)
	case http.MethodDelete:
		s := h.session(r.Header.Get(wire.HeaderSessionID))
		if s == nil {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		s.close(nil)
		<-s.done
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func (h *hub) session(id string) *hubSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id]
}

func (h *hub) post(ctx context.Context, v *visit) {
	known := h.session(v.r.Header.Get(wire.HeaderSessionID))
	if known != nil {
		known.headers.update(v.r.Header)
		v.session = known.link.session
		v.version, _ = v.session.negotiated()
	}
	msg, batch, ok := v.read(ctx)
	if !ok {
		return
	}
	ctx, end := h.life.begin(ctx, true)
	if end == nil {
		v.write(h.lane.refuseStopping(ctx, v.arrival(msg)))
		return
	}
	defer end()
	switch {
	case known != nil:
		known.post(ctx, v, msg.Raw)
	case v.session.id != "":
		h.refuse(ctx, v, msg, http.StatusNotFound, "session not found")
	case batch != nil:
		h.refuse(ctx, v, msg, http.StatusBadRequest, "a batch needs a session")
	case msg.Method == methodInitialize && msg.Kind == wire.KindRequest:
		h.initialize(ctx, v, msg)
	case stateless(wire.MetaOf(msg.Params).ProtocolVersion) || stateless(v.version) || msg.Method == methodDiscover:
		h.once(ctx, v, msg)
	default:
		h.refuse(ctx, v, msg, http.StatusBadRequest, "header Mcp-Session-Id is missing")
	}
}

// refuse answers a message that belongs to no session. A request is recorded.
func (h *hub) refuse(ctx context.Context, v *visit, msg wire.Message, status int, text string) {
	if msg.Kind != wire.KindRequest {
		http.Error(v.w, text, status)
		return
	}
	in := v.arrival(msg)
	in.scope = false
	a := h.lane.newExchange(in).refuse(ctx, verdict{
		outcome: schemas.OutcomeDenied, cause: causeUnknownSession,
		rpc: &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: " + text},
	})
	if a.status == 0 {
		a.status = status
	}
	v.write(a)
}

// initialize makes a session and has its server answer.
func (h *hub) initialize(ctx context.Context, v *visit, msg wire.Message) {
	s, err := h.open(ctx, v, rand.Text())
	if err != nil {
		status, cause := http.StatusBadGateway, causeBackendLost
		if errors.Is(err, errOverloaded) || errors.Is(err, ErrStopping) {
			cause, _, status = refusalOf(err)
		}
		a := h.lane.newExchange(v.arrival(msg)).refuse(ctx, verdict{
			outcome: schemas.OutcomeError, cause: cause, text: err.Error(),
			rpc: &wire.RPCError{Code: wire.CodeInternal, Message: "no answer from the server: " + cause},
		})
		if a.status == 0 {
			a.status = status
		}
		v.write(a)
		return
	}
	v.session = s.link.session
	v.w.Header().Set(wire.HeaderSessionID, s.id)
	s.post(ctx, v, msg.Raw)
	if version, _ := s.link.session.negotiated(); version == "" {
		s.close(nil) // it was not answered with a result: there is no session
	}
}

// once serves one request of the protocol without sessions.
func (h *hub) once(ctx context.Context, v *visit, msg wire.Message) {
	if msg.Kind != wire.KindRequest {
		v.w.WriteHeader(http.StatusAccepted) // nothing to relate it to
		return
	}
	s, err := h.open(ctx, v, "")
	if err != nil {
		a := h.lane.newExchange(v.arrival(msg)).refuse(ctx, verdict{
			outcome: schemas.OutcomeError, cause: causeBackendLost, text: err.Error(),
			rpc: &wire.RPCError{Code: wire.CodeInternal, Message: "no answer from the server: " + causeBackendLost},
		})
		if a.status == 0 {
			a.status = http.StatusBadGateway
		}
		v.write(a)
		return
	}
	if version := wire.MetaOf(msg.Params).ProtocolVersion; version != "" {
		v.version = version
	}
	s.post(ctx, v, msg.Raw)
	s.close(nil)
	<-s.done
}

// open makes a session with its way to a server; without an id it is one for a single request.
func (h *hub) open(ctx context.Context, v *visit, id string) (*hubSession, error) {
	if h.lane.registry.isStopping() {
		return nil, ErrStopping
	}
	if id != "" && !h.admitSession() {
		return nil, errOverloaded
	}
	s, err := h.connect(ctx, v, id)
	if id == "" {
		return s, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starting--
	if err == nil {
		h.sessions[id] = s
	}
	return s, err
}

func (h *hub) admitSession() bool {
	limit := h.lane.opts.MaxSessions
	if len(h.lane.backend.Command) > 0 && !h.lane.backend.Shared {
		limit = min(limit, h.lane.opts.MaxChildren)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sessions)+h.starting >= limit {
		return false
	}
	h.starting++
	return true
}

func (h *hub) leaveSession() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starting--
}

// reach makes a session's way to a server: one of its own, or a seat at a shared one.
func (h *hub) reach(ctx context.Context, t *forwarded, lasting bool) (conn wire.Conn, stop func(context.Context), err error) {
	switch {
	case t != nil:
		return h.lane.dial(t)
	case !lasting:
		return h.apart.attach(ctx, false)
	case h.lane.backend.Shared:
		return h.mux.attach(ctx, true)
	}
	return h.lane.dial(nil)
}

// bridges reports whether what the hub serves is translated for a server that is reached over streamable
// HTTP: then requests go there with the headers of the client.
func (h *hub) bridges() bool { return h.lane.relayed() && h.lane.backend.Bridge != BridgeOff }

func (h *hub) connect(ctx context.Context, v *visit, id string) (*hubSession, error) {
	// The session outlives the request that made it.
	ctx, end := h.life.begin(ctx, true)
	if end == nil {
		return nil, ErrStopping
	}
	var t *forwarded
	if h.bridges() {
		t = newForwarded(h.lane.opts.Transport, v.r.Header, h.lane.backend.Headers)
	}
	conn, stop, err := h.reach(ctx, t, id != "")
	if err != nil {
		end()
		h.lane.log.ErrorContext(ctx, "server not started", slog.Any("error", err))
		return nil, err
	}
	s := &hubSession{hub: h, id: id, headers: t, port: newHTTPPort(id != ""), done: make(chan struct{}), closing: make(chan error, 1), touched: make(chan struct{}, 1)}
	base := v.arrival(wire.Message{})
	base.header = v.r.Header.Clone()
	base.address, base.userAgent = v.r.RemoteAddr, v.r.UserAgent()
	s.link = newLink(h.lane, newSession(id, &h.lane.opts.Key, h.lane.opts.MaxPending), base, s.port, conn)
	go s.run(ctx, end, stop) // exits by close, when the server is lost, when idle for too long, or with the gateway
	return s, nil
}

func (h *hub) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, id)
}

// close ends every session and the shared child.
func (h *hub) close(ctx context.Context) {
	h.mu.Lock()
	for _, s := range h.streams {
		s.end()
	}
	all := make([]*hubSession, 0, len(h.sessions))
	for _, s := range h.sessions {
		all = append(all, s)
	}
	h.mu.Unlock()
	for _, s := range all {
		s.close(nil)
	}
	for _, s := range all {
		select {
		case <-s.done:
		case <-ctx.Done():
		}
	}
	h.mux.close(ctx)
	h.apart.close(ctx)
}

// idleCheck is how exactly the idle time of a session is kept.
func idleCheck(limit time.Duration) time.Duration { return max(limit/8, time.Millisecond) }
