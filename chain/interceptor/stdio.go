package interceptor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// endGrace is how long calls may go on after the client closed its side.
const endGrace = 2 * time.Second

// errCancelled is the cause of a call that its invoker cancelled: it is not answered.
var errCancelled = errors.New("cancelled by the invoker")

// ServeStdio answers requests that come as lines on r with lines on w, many at once, until r ends or
// ctx is done. Both ends are closed if they can be. Calls under way are given a moment to answer when
// r ends; a handler that then still runs is left to [Server.Wait]. The orderly end is a nil error.
func (s *Server) ServeStdio(ctx context.Context, r io.Reader, w io.Writer) error {
	out, ok := w.(io.WriteCloser)
	if !ok {
		out = keepOpen{w}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session := &session{
		server: s, conn: wire.NewLineConn(r, out, &wire.LineOptions{MaxMessage: s.opts.MaxMessage}),
		ended: make(chan struct{}), calls: map[string]*pending{},
	}
	session.turn.init(func() { s.running.Go(func() { session.read(ctx) }) })
	stop := context.AfterFunc(ctx, func() { _ = session.conn.Close() })
	s.running.Go(func() { session.read(ctx) }) // exits when r ends, or when another one has taken over
	<-session.ended
	grace := time.AfterFunc(endGrace, cancel)
	session.open.Wait()
	grace.Stop()
	if stop() {
		_ = session.conn.Close()
	}
	if ctx.Err() != nil || session.err == nil {
		return nil
	}
	return fmt.Errorf("serve interceptors: %w", session.err)
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// session is one connection being served.
//
// One goroutine at a time reads, and runs handlers itself that were fast before: to hand each call to another
// goroutine costs more than such a handler does. When one stays, another goroutine takes over the reading (see [turn]).
type session struct {
	server *Server
	conn   *wire.LineConn
	turn   turn
	open   sync.WaitGroup // calls that are not answered yet
	ended  chan struct{}  // closed when a read met the end
	err    error          // of the end, nil if it was in order; read after ended

	mu    sync.Mutex // covers calls
	calls map[string]*pending
}

// read takes messages until the end, or until it was replaced while it ran a handler.
func (s *session) read(ctx context.Context) {
	for {
		raw, err := s.conn.ReadMessage()
		switch {
		case err == nil:
		case errors.Is(err, wire.ErrTooLarge):
			s.refuse(ctx, nil, &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: " + err.Error()})
			continue
		default:
			if !errors.Is(err, io.EOF) && !errors.Is(err, wire.ErrClosed) {
				s.err = err
			}
			close(s.ended)
			return
		}
		run, quick := s.take(ctx, raw)
		switch {
		case run == nil:
		case quick && !s.conn.Pending(): // else the next one would wait for it
			ticket := s.turn.begin()
			run()
			if !s.turn.end(ticket) {
				return
			}
		default:
			s.server.running.Go(run) // exits when the handler returns
			runtime.Gosched()        // to read on would block the thread that the call waits for
		}
	}
}

// take handles one message. If it is a call that needs a handler, run runs that, and quick says that it was fast the
// last time.
func (s *session) take(ctx context.Context, raw []byte) (run func(), quick bool) {
	msg, err := wire.Parse(raw, wire.Limits{})
	if err != nil {
		s.takeBad(ctx, err)
		return nil, false
	}
	switch msg.Kind {
	default: // answers: we ask nothing
	case wire.KindNotification:
		if msg.Method == wire.MethodCancelled {
			s.cancel(msg.Params)
		}
	case wire.KindRequest:
		return s.start(ctx, &msg)
	}
	return nil, false
}

func (s *session) takeBad(ctx context.Context, err error) {
	if bad, ok := errors.AsType[*wire.ParseError](err); ok {
		s.refuse(ctx, bad.ID, bad.RPC())
		return
	}
	s.refuse(ctx, nil, &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: batches are not supported"})
}

// start answers what needs no handler, and prepares a call; an id that is in use, or one call too many, is refused.
func (s *session) start(ctx context.Context, msg *wire.Message) (run func(), quick bool) {
	key := wire.IDKey(msg.ID)
	s.mu.Lock()
	_, used := s.calls[key]
	full := len(s.calls) >= 2*cap(s.server.slots)
	s.mu.Unlock()
	switch {
	case used:
		s.refuse(ctx, msg.ID, &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: the id is in use"})
		return nil, false
	case full:
		s.refuse(ctx, msg.ID, &wire.RPCError{Code: wire.CodeInternal, Message: "Too many calls in flight"})
		return nil, false
	}
	f, refusal := s.server.admitRequest(msg.Method, msg.Params)
	switch {
	case refusal != nil:
		s.refuse(ctx, msg.ID, refusal)
		return nil, false
	case f == nil:
		result, err := s.server.Handle(ctx, msg.Method, msg.Params)
		s.answer(ctx, msg.ID, result, err)
		return nil, false
	}
	within, unlimit := f.limited(ctx)
	limited, cancel := context.WithCancelCause(within)
	call := &pending{session: s, id: msg.ID, key: key, flight: f, cancel: cancel}
	s.open.Add(1)
	s.mu.Lock()
	s.calls[key] = call
	s.mu.Unlock()
	return func() {
		defer unlimit()
		defer cancel(nil)
		call.run(ctx, limited)
	}, f.entry.fast.Load()
}

func (s *session) cancel(params jsonx.Value) {
	id, ok := wire.Member(params, "requestId")
	if !ok {
		return
	}
	s.mu.Lock()
	call := s.calls[wire.IDKey(id)]
	s.mu.Unlock()
	if call != nil {
		call.cancel(errCancelled)
	}
}

func (s *session) answer(ctx context.Context, id, result jsonx.Value, err error) {
	if err != nil {
		s.refuse(ctx, id, rpcError(err))
		return
	}
	s.send(ctx, wire.NewResponse(id, result))
}

func (s *session) refuse(ctx context.Context, id jsonx.Value, e *wire.RPCError) {
	s.send(ctx, wire.NewErrorAnswer(id, e))
}

func (s *session) send(ctx context.Context, raw []byte) {
	if err := s.conn.Send(context.WithoutCancel(ctx), raw, nil); err != nil && ctx.Err() == nil {
		s.server.opts.Logger.WarnContext(ctx, "answer not sent", slog.Any("error", err))
	}
}
