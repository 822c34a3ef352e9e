package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// maxSlots bounds the events of a stream that were read and not yet written.
const maxSlots = 16

// slot is the place of an event in a stream. Events are worked on in parallel and written in order,
// so that the event id that a client resumes from is never ahead of what it got.
type slot struct {
	ev    wire.Event
	ready chan struct{} // nil: at once
}

// relayStream carries a stream of events to the client, taking what answers and what asks through
// the plan. It returns when the stream ended, or the client left and nothing of this POST is open.
func (p *post) relayStream(ctx context.Context, resp *http.Response) {
	p.relay.headersBack(p.visit, resp.Header)
	p.w.WriteHeader(resp.StatusCode)
	out := &streamWriter{post: p, to: wire.NewSSEWriter(p.w)}
	_ = http.NewResponseController(p.w).Flush() // the client is to see the headers before the first event
	for _, raw := range p.early {
		out.write(wire.Event{Data: raw})
	}
	slots := make(chan *slot, maxSlots)
	in := &streamReader{post: p, slots: slots}
	var reading sync.WaitGroup
	reading.Go(func() { // exits at the end of the stream, when it is closed below, or with ctx
		defer close(slots)
		in.read(ctx, resp.Body)
	})
	for s := range slots {
		if s.ready != nil {
			<-s.ready
		}
		if out.write(s.ev); out.gone && p.mayLeave(in.resumable()) {
			_ = resp.Body.Close()
			for s := range slots { // lets the reader end
				if s.ready != nil {
					<-s.ready
				}
			}
			break
		}
	}
	reading.Wait()
	p.finish(ctx, in, out)
}

// mayLeave reports whether the rest of a stream need not be read for a client that is gone: nothing
// is open, or the client can come back for it.
func (p *post) mayLeave(resumable bool) bool {
	if resumable && p.session.id != "" {
		return true
	}
	for _, x := range p.own {
		if !x.over() {
			return false
		}
	}
	return true
}

// finish ends what the stream did not answer, unless the answer can still come on another one.
func (p *post) finish(ctx context.Context, in *streamReader, out *streamWriter) {
	if in.resumable() && p.session.id != "" {
		for _, x := range p.own {
			p.lane.registry.park(x) // nobody waits for it until the client comes back
		}
		return
	}
	for _, x := range p.own {
		cause, text := causeNoAnswer, ""
		if in.err != nil && !errors.Is(in.err, io.EOF) {
			cause, text = causeBackendLost, in.err.Error()
		}
		if a := x.fail(ctx, cause, text); a.raw != nil {
			out.write(wire.Event{Data: a.raw})
		}
	}
}

// streamWriter writes events until the client is gone.
type streamWriter struct {
	*post
	to   *wire.SSEWriter
	gone bool
}

func (s *streamWriter) write(ev wire.Event) {
	if s.gone || (!ev.Comment && len(ev.Data) == 0 && !ev.HasID && ev.Retry == 0) {
		return
	}
	if err := s.to.Write(ev); err != nil {
		s.gone = true
		s.lane.log.Debug("event not delivered", slog.Any("error", err))
	}
}

// streamReader reads events ahead of the writer, so that a cancel is seen while a chain runs.
type streamReader struct {
	*post
	slots chan<- *slot
	err   error // why the stream ended

	mu     sync.Mutex // guards hasIDs
	hasIDs bool
}

func (s *streamReader) resumable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasIDs
}

func (s *streamReader) read(ctx context.Context, body io.Reader) {
	events := wire.NewSSEReader(body, int(s.lane.opts.MaxMessage))
	events.Comments = true
	for {
		ev, err := events.Next()
		if errors.Is(err, wire.ErrTooLarge) {
			// The event is skipped; if it was the answer, its exchange ends with the stream.
			s.lane.log.WarnContext(ctx, "event skipped", slog.Any("error", err))
			s.lane.refuseServer(ctx, s.arrival(wire.Message{}), wire.Message{}, err)
			continue
		}
		if err != nil {
			s.err = err
			return
		}
		if ev.HasID && ev.ID != "" && !s.hasIDs {
			s.mu.Lock()
			s.hasIDs = true
			s.mu.Unlock()
		}
		s.slots <- s.take(ctx, ev)
	}
}

// take starts the work on an event.
func (s *streamReader) take(ctx context.Context, ev wire.Event) *slot {
	if len(ev.Data) == 0 || ev.Comment || (ev.Type != "" && ev.Type != "message") {
		return &slot{ev: ev}
	}
	msg, err := wire.Parse(ev.Data, s.lane.limits(true))
	if list, isBatch := errors.AsType[*wire.BatchError](err); isBatch {
		var out [][]byte
		changed := false
		for _, entry := range list.Entries {
			raw := s.batchAnswer(ctx, entry)
			changed = changed || !bytes.Equal(raw, entry)
			if raw != nil {
				out = append(out, raw)
			}
		}
		if changed {
			ev.Data = joinBatch(out)
		}
		return &slot{ev: ev}
	}
	if err != nil {
		ev.Data = s.odd(ctx, msg, err)
		return &slot{ev: ev}
	}
	switch msg.Kind {
	case wire.KindNotification:
		if msg.Method == methodCancelled && !s.asker().cancel(ctx, &msg, true) {
			ev.Data = nil
		}
		return &slot{ev: ev}
	case wire.KindRequest:
		return s.work(ev, func() []byte { return s.asked(ctx, msg) })
	default:
	}
	x := s.waiting(msg.ID)
	if x == nil {
		ev.Data = s.again(ctx, msg)
		return &slot{ev: ev}
	}
	return s.work(ev, func() []byte {
		raw := x.settle(ctx, msg).raw
		if ev.HasID && raw != nil {
			s.session.remember(x, msg.Raw, raw)
		}
		return raw
	})
}

// work fills the slot in a goroutine; the writer waits for it.
func (s *streamReader) work(ev wire.Event, do func() []byte) *slot {
	out := &slot{ev: ev, ready: make(chan struct{})}
	go func() { // exits when the phase has run, which an interrupt ends; the writer waits for ready
		defer close(out.ready)
		out.ev.Data = do()
	}()
	return out
}

// asked takes a request of the server, and returns what the client is to see.
func (s *streamReader) asked(ctx context.Context, msg wire.Message) []byte {
	in := s.arrival(msg)
	in.reverse, in.scope, in.session = true, true, s.asker()
	if len(s.own) == 1 {
		in.parent, in.traceparent = s.own[0].id, s.own[0].traceparent
	}
	x, a := s.lane.begin(ctx, in)
	if x != nil {
		out, refused, ok := x.admit(ctx)
		if ok {
			return out.Raw
		}
		a = refused
	}
	if a.raw != nil {
		if err := s.relay.answerBack(ctx, s.r, a.raw); err != nil {
			s.lane.log.WarnContext(ctx, "refusal not delivered to the server", slog.Any("error", err))
		}
	}
	return nil
}

// odd takes an event that is no message. If it is the answer of an exchange, the caller gets an
// error in its place.
func (s *streamReader) odd(ctx context.Context, msg wire.Message, err error) []byte {
	reason := "not understood"
	var id []byte
	if parse, ok := errors.AsType[*wire.ParseError](err); ok {
		reason, id = parse.Reason, parse.ID
	}
	x := s.waiting(id)
	if x == nil && id == nil && len(s.own) == 1 && !s.own[0].over() && msg.Method == "" {
		x = s.own[0] // garbage on the stream of its answer
	}
	if x != nil {
		return x.malformed(ctx, msg.Raw, reason).raw
	}
	s.lane.refuseServer(ctx, s.arrival(msg), msg, err)
	return nil
}

// again answers a response that was answered before and comes once more on a resumed stream.
func (s *streamReader) again(ctx context.Context, msg wire.Message) []byte {
	if msg.ID != nil {
		if raw, ok := s.session.replayed(msg); ok {
			return raw
		}
	}
	s.lane.strayFromServer(ctx, s.arrival(msg), msg)
	return nil
}

// remember keeps what a response was answered with.
func (s *session) remember(x *exchange, raw, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[sideOf(x.reverse)].add(wire.IDKey(x.msg.ID), raw, answer)
}

func (s *session) replayed(msg wire.Message) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[0].find(wire.IDKey(msg.ID), msg.Raw)
}
