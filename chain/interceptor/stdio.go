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
	conn := wire.NewLineConn(r, out, &wire.LineOptions{MaxMessage: s.opts.MaxMessage})
	return s.ServeConn(ctx, conn)
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// ServeConn is ServeStdio on any connection, which it closes.
func (s *Server) ServeConn(ctx context.Context, conn wire.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session := &session{server: s, conn: conn, calls: map[string]context.CancelCauseFunc{}}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := conn.Receive(ctx, func(raw []byte) { session.take(ctx, raw) }, func(err error) {
		session.refuse(ctx, nil, &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: " + err.Error()})
	})
	grace := time.AfterFunc(endGrace, cancel)
	session.running.Wait()
	grace.Stop()
	if stop() {
		_ = conn.Close()
	}
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("serve interceptors: %w", err)
}

// session is one connection being served.
type session struct {
	server  *Server
	conn    wire.Conn
	running sync.WaitGroup // calls

	mu    sync.Mutex // covers calls
	calls map[string]context.CancelCauseFunc
}

// take handles one message on the reading goroutine, which must not block for long.
func (s *session) take(ctx context.Context, raw []byte) {
	msg, err := wire.Parse(raw, wire.Limits{})
	if err != nil {
		s.takeBad(ctx, err)
		return
	}
	switch msg.Kind {
	default: // answers: we ask nothing
	case wire.KindNotification:
		if msg.Method == wire.MethodCancelled {
			s.cancel(msg.Params)
		}
	case wire.KindRequest:
		s.start(ctx, msg)
	}
}

func (s *session) takeBad(ctx context.Context, err error) {
	if bad, ok := errors.AsType[*wire.ParseError](err); ok {
		s.refuse(ctx, bad.ID, bad.RPC())
		return
	}
	s.refuse(ctx, nil, &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: batches are not supported"})
}

// start begins a call; an id that is in use, or one call too many, is refused at once.
func (s *session) start(ctx context.Context, msg wire.Message) {
	key := wire.IDKey(msg.ID)
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	_, used := s.calls[key]
	full := len(s.calls) >= 2*cap(s.server.slots)
	if !used && !full {
		s.calls[key] = cancel
	}
	s.mu.Unlock()
	if used || full {
		cancel(nil)
		refusal := &wire.RPCError{Code: wire.CodeInternal, Message: "Too many calls in flight"}
		if used {
			refusal = &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: the id is in use"}
		}
		s.refuse(ctx, msg.ID, refusal)
		return
	}
	s.running.Go(func() { // exits when the call is answered or ctx is done
		defer cancel(nil)
		result, err := s.server.Handle(ctx, msg.Method, msg.Params)
		s.mu.Lock()
		delete(s.calls, key)
		s.mu.Unlock()
		switch {
		case errors.Is(context.Cause(ctx), errCancelled):
		case err != nil:
			s.refuse(ctx, msg.ID, rpcError(err))
		default:
			s.send(ctx, wire.NewResponse(msg.ID, result))
		}
	})
	// The call runs now, on this processor: reading on would block the thread that it waits for.
	runtime.Gosched()
}

func (s *session) cancel(params jsonx.Value) {
	id, ok := wire.Member(params, "requestId")
	if !ok {
		return
	}
	s.mu.Lock()
	cancel := s.calls[wire.IDKey(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

func (s *session) refuse(ctx context.Context, id jsonx.Value, e *wire.RPCError) {
	s.send(ctx, wire.NewErrorAnswer(id, e))
}

func (s *session) send(ctx context.Context, raw []byte) {
	if err := s.conn.Send(context.WithoutCancel(ctx), raw, nil); err != nil && ctx.Err() == nil {
		s.server.opts.Logger.WarnContext(ctx, "answer not sent", slog.Any("error", err))
	}
}
