package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// hubSession is one client's session at a stdio server.
type hubSession struct {
	hub     *hub
	id      string // empty: for one request only
	link    *link
	headers *forwarded // of a connection over HTTP; nil: it has none of the client's
	port    *httpPort
	closing chan error // takes the reason to end
	touched chan struct{}
	done    chan struct{} // closed when everything of the session has ended
}

// close asks the session to end; a reason means that its server was lost.
func (s *hubSession) close(reason error) {
	select {
	case s.closing <- reason:
	default: // it is ending
	}
}

func (s *hubSession) run(ctx context.Context, end func(), stop func(context.Context)) {
	defer close(s.done)
	defer end()
	k := s.link
	work := context.WithoutCancel(ctx)
	var receiving sync.WaitGroup
	receiving.Go(func() { // exits when the server's stream ends, at the latest by stop
		err := k.server.Receive(work, func(raw []byte) { k.fromServer(work, raw) }, func(err error) { k.skipped(work, err) })
		s.close(errors.Join(errServerEnded, err))
	})
	lost := s.wait(ctx)
	if s.id != "" {
		s.hub.forget(s.id)
	}
	k.end(work, lost, errSessionEnded)
	s.port.shut()
	stop(work)
	receiving.Wait()
	k.end(work, lost, errSessionEnded)
	s.port.end()
}

var errServerEnded = errors.New("the server ended")

// wait returns when the session is to end.
func (s *hubSession) wait(ctx context.Context) error {
	limit := s.hub.lane.opts.SessionIdle
	idle := time.NewTimer(limit)
	defer idle.Stop()
	last := time.Now()
	for {
		select {
		case reason := <-s.closing:
			return reason
		case <-ctx.Done():
			return nil
		case <-s.touched:
			last = time.Now()
		case <-idle.C:
			if s.port.busy() {
				last = time.Now()
			}
			if time.Since(last) >= limit {
				s.link.lane.log.InfoContext(ctx, "idle session ended", slog.Duration("idle", limit))
				return nil
			}
			idle.Reset(max(limit-time.Since(last), idleCheck(limit)))
		}
	}
}

func (s *hubSession) touch() {
	select {
	case s.touched <- struct{}{}:
	default:
	}
}

// post takes the body of one POST and answers it: with JSON when nothing but answers comes, else
// with a stream.
func (s *hubSession) post(ctx context.Context, v *visit, raw []byte) {
	ctx = context.WithoutCancel(ctx) // what was begun goes on when the client leaves
	s.touch()
	msg, err := wire.Parse(raw, s.link.lane.limits(false))
	waits := msg.Kind == wire.KindRequest || errors.Is(err, wire.ErrBatch)
	if !waits {
		s.link.take(ctx, msg, s.link.from(v, nil))
		v.w.WriteHeader(http.StatusAccepted)
		return
	}
	of, by := s.port.open(&msg)
	from := s.link.from(v, func(raw []byte) { s.port.final(of, raw) })
	if err != nil {
		s.link.fromClient(ctx, raw, from)
	} else {
		s.link.take(ctx, msg, from)
	}
	if !s.carrier(v, of, by).carry(v.r.Context()) && s.id == "" { //nolint:contextcheck // the one ends with the client, the other must not
		// From 2026-07-28 on a client that closes the response stream cancels its request.
		s.link.abandon(ctx)
	}
}

// serveStream serves a GET: what the server says unasked, or the rest of a stream that broke.
func (s *hubSession) serveStream(ctx context.Context, v *visit) {
	s.touch()
	ctx, end := s.hub.life.begin(ctx, false)
	if end == nil {
		http.Error(v.w, "gateway is stopping", http.StatusServiceUnavailable)
		return
	}
	defer end()
	of, by, status, text := s.port.attach(v.r.Header.Get(wire.HeaderLastEventID))
	if of == nil {
		http.Error(v.w, text, status)
		return
	}
	c := s.carrier(v, of, by)
	if err := c.start(); err != nil {
		s.port.detach(of, by)
		return
	}
	c.carry(ctx)
}

func (s *hubSession) carrier(v *visit, of *stream, by *reader) *carrier {
	return &carrier{visit: v, port: s.port, of: of, by: by, prime: s.id != "" && v.version >= wire.Version20251125 && accepts(v.r, wire.ContentSSE)}
}

// abandon cancels every open request of the client and tells the server.
func (k *link) abandon(ctx context.Context) {
	for _, x := range k.session.all() {
		if x.reverse {
			continue
		}
		wasForwarded, _ := x.interrupt(ctx, errClientGone)
		if wasForwarded {
			params := append([]byte(`{"requestId":`), x.msg.ID...)
			k.send(ctx, wire.NewNotification(methodCancelled, append(params, '}')))
		}
	}
}
