package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// The transport of 2024-11-05 in front: GET /<backend>/sse is a session, and carries all that the
// server says; its first event names the endpoint for what the client says. Whatever the backend is,
// each session has a link of its own.

// sseSession is the client's end of such a link.
type sseSession struct {
	link *link
	out  chan []byte   // what waits to be written; full: the sender waits, as on stdio
	gone chan struct{} // closed when nobody writes any more
	end  context.CancelFunc
}

// deliver implements clientPort.
func (s *sseSession) deliver(ctx context.Context, msg *wire.Message) error {
	select {
	case s.out <- msg.Raw:
		return nil
	case <-s.gone:
		return errNoStream
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *sseSession) reply(raw []byte) {
	if raw == nil {
		return
	}
	select {
	case s.out <- raw:
	case <-s.gone:
		s.link.lane.log.Debug("answer not delivered", slog.Any("error", errNoStream))
	}
}

// serveSSE serves the stream of a session, for as long as it lasts.
func (h *hub) serveSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		// What a client of streamable HTTP makes of it: an older server (Backwards Compatibility).
		w.Header().Set("Allow", "GET")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	v, ok := h.lane.newVisit(w, r)
	if !ok {
		return
	}
	ctx, end := h.life.begin(r.Context(), false)
	if end == nil || h.lane.registry.isStopping() {
		http.Error(w, "gateway is stopping", http.StatusServiceUnavailable)
		if end != nil {
			end()
		}
		return
	}
	defer end()
	if !h.admitSession() {
		http.Error(w, "too many sessions", http.StatusServiceUnavailable)
		return
	}
	defer h.leaveSession()
	conn, stop, err := h.reach(ctx, nil, true)
	if err != nil {
		h.lane.log.ErrorContext(ctx, "server not started", slog.Any("error", err))
		http.Error(w, "no connection to the server", http.StatusBadGateway)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &sseSession{out: make(chan []byte, maxBacklog), gone: make(chan struct{}), end: cancel}
	id := rand.Text()
	s.link = newLink(h.lane, newSession(id, &h.lane.opts.Key, h.lane.opts.MaxPending), v.arrival(wire.Message{}), s, conn)
	h.mu.Lock()
	h.streams[id] = s
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.streams, id)
	}()
	s.carry(ctx, v, messagePath(r)+"?sessionId="+id, stop)
}

// messagePath is the endpoint beside the stream, as the client has to name it.
func messagePath(r *http.Request) string {
	path := r.URL.Path
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		path = u.Path // also where the gateway is mounted behind a prefix
	}
	return strings.TrimSuffix(strings.TrimSuffix(path, "/"), "sse") + "message"
}

// carry writes what the server says until one side ends.
func (s *sseSession) carry(ctx context.Context, v *visit, endpoint string, stop func(context.Context)) {
	k, work := s.link, context.WithoutCancel(ctx)
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { // exits when the server's stream ends, at the latest by stop
		err := k.server.Receive(work, func(raw []byte) { k.fromServer(work, raw) }, func(err error) { k.skipped(work, err) })
		ended <- errors.Join(errServerEnded, err)
	})
	startStream(v.w)
	out := wire.NewSSEWriter(v.w)
	err := out.Write(wire.Event{Type: "endpoint", Data: []byte(endpoint)})
	var lost error
	settled := make(chan struct{}) // closed when those who waited for a lost server have their answers
	for err == nil {
		select {
		case raw := <-s.out:
			err = out.Write(wire.Event{Type: "message", Data: raw})
			continue
		case lost = <-ended:
			running.Go(func() { // exits when everything open has ended; its answers are written here
				k.end(work, lost, errSessionEnded)
				close(settled)
			})
			continue
		case <-settled:
		case <-ctx.Done():
		}
		break
	}
	for err == nil && lost != nil { // what came before the end
		select {
		case raw := <-s.out:
			err = out.Write(wire.Event{Type: "message", Data: raw})
			continue
		default:
		}
		break
	}
	close(s.gone)
	k.end(work, lost, errSessionEnded)
	stop(work)
	running.Wait()
	k.end(work, lost, errSessionEnded)
}

func (h *hub) stream(id string) *sseSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[id]
}

// message takes what a client of such a session says.
func (h *hub) message(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	v, ok := h.lane.newVisit(w, r)
	if !ok {
		return
	}
	s := h.stream(r.URL.Query().Get("sessionId"))
	if s == nil {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	v.session = s.link.session
	v.version, _ = v.session.negotiated()
	ctx := context.WithoutCancel(r.Context()) // its answer comes on the stream
	msg, batch, ok := v.read(ctx)
	if !ok {
		return
	}
	if batch != nil {
		s.link.batch(ctx, batch.Entries, s.link.from(v, s.reply))
	} else {
		s.link.take(ctx, msg, s.link.from(v, s.reply))
	}
	w.WriteHeader(http.StatusAccepted)
}
