package gateway

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
)

const (
	// primeAfter is how long a POST waits for its answer before it becomes a stream that the client
	// can resume. An answer that comes earlier is sent as JSON.
	primeAfter = 500 * time.Millisecond
	// resumePause is when a client whose connection broke should come back.
	resumePause = time.Second
)

// stream is what a session says on one HTTP stream. It outlives the connection that carries it: the
// client names the last event it got, and the next connection goes on behind it. Its fields are
// guarded by the port's mutex.
type stream struct {
	number uint64 // 0: what the server says unasked
	token  string // wire.IDKey of the progress token; empty: none
	log    []message
	next   uint64  // number of the next message; the first is 1
	sent   uint64  // highest number that was written
	by     *reader // nil: no connection
	named  bool    // the client got an event id, so that it can come back
	ended  bool    // the answer is in the log, or was
	wake   chan struct{}
}

type message struct {
	seq   uint64
	raw   []byte
	final bool
}

// reader is one connection that carries a stream.
type reader struct{ at uint64 } // number of the last message written on it

// changed wakes who waits for the stream.
func (s *stream) changed() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *stream) unwritten() uint64 { return s.next - 1 - s.sent }

// waits reports whether the oldest message must stay, because it is still to be sent: on a
// connection, or on the next GET.
func (s *stream) waits() bool {
	oldest := s.log[0].seq
	if s.by != nil {
		return oldest > s.by.at
	}
	return s.number == 0 && oldest > s.sent
}

func (s *stream) eventID(seq uint64) string {
	return strconv.FormatUint(s.number, 10) + "_" + strconv.FormatUint(seq, 10)
}

func parseEventID(id string) (number, seq uint64, ok bool) {
	left, right, ok := strings.Cut(id, "_")
	number, err1 := strconv.ParseUint(left, 10, 64)
	seq, err2 := strconv.ParseUint(right, 10, 64)
	return number, seq, ok && err1 == nil && err2 == nil
}

// attach connects a GET to the stream that lastID names; without one to the first, behind what was
// written. A client that comes back takes its stream over from a connection of which it knows that
// it is broken.
func (p *httpPort) attach(lastID string) (s *stream, by *reader, status int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.streams[0]
	at := s.sent
	if lastID != "" {
		number, seq, ok := parseEventID(lastID)
		if s = p.numbered(number); !ok || s == nil || seq >= s.next {
			// Not 404, which would mean the session.
			return nil, nil, http.StatusBadRequest, "the event id is not known, or not any more"
		}
		at = seq
	} else if s.by != nil || p.closed {
		return nil, nil, http.StatusConflict, "a stream of this session is open"
	}
	s.by = &reader{at: at}
	s.changed()
	return s, s.by, 0, ""
}

func (p *httpPort) numbered(number uint64) *stream {
	for _, s := range p.streams {
		if s.number == number {
			return s
		}
	}
	return nil
}

// detach ends a connection. What it did not write stays for the next.
func (p *httpPort) detach(s *stream, by *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.by != by {
		return
	}
	s.by = nil
	if s.number > 0 && s.ended && (!s.named || s.unwritten() == 0 && len(s.log) == 0) {
		p.remove(s)
	}
	p.makeRoom()
	s.changed()
}

// following takes the next message for a connection, or the channel that tells of one. The stream is
// over when nothing will follow, or another connection took it over.
func (p *httpPort) following(s *stream, by *reader) (m message, wake <-chan struct{}, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.by != by {
		return m, nil, true
	}
	for _, m := range s.log {
		if m.seq > by.at {
			return m, nil, false
		}
	}
	return m, s.wake, s.ended || (p.closed && s.number == 0)
}

// written notes that a message went out.
func (p *httpPort) written(s *stream, by *reader, seq uint64, named bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by.at = max(by.at, seq)
	s.sent = max(s.sent, seq)
	s.named = s.named || named
	p.makeRoom()
	s.changed()
}

// carrier writes a stream to one connection.
type carrier struct {
	*visit
	port  *httpPort
	of    *stream
	by    *reader
	out   *wire.SSEWriter // nil: nothing was written yet
	prime bool            // the client understands events that carry only an id
}

// carry writes what comes until the stream is over; false means that the client left before.
func (c *carrier) carry(ctx context.Context) bool {
	defer c.port.detach(c.of, c.by)
	wait := time.NewTimer(primeAfter)
	defer wait.Stop()
	if !c.prime {
		wait.Stop()
	}
	for {
		m, wake, over := c.port.following(c.of, c.by)
		switch {
		case m.seq > 0:
			if err := c.write(m); err != nil {
				return false
			}
			if m.final {
				return true
			}
			continue
		case over:
			return true
		}
		select {
		case <-wake:
		case <-wait.C:
			if err := c.start(); err != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// start begins the event stream. Where the client can come back it gets an event id at once
// (streamable HTTP of 2025-11-25, "Resumability and Redelivery").
func (c *carrier) start() error {
	if c.out != nil {
		return nil
	}
	startStream(c.w)
	c.out = wire.NewSSEWriter(c.w)
	if !c.prime {
		return nil
	}
	err := c.out.Write(wire.Event{ID: c.of.eventID(c.by.at), HasID: true, Retry: resumePause})
	if err == nil {
		c.port.written(c.of, c.by, c.by.at, true)
	}
	return err
}

func (c *carrier) write(m message) error {
	if c.out == nil && m.final && c.by.at == 0 {
		c.visit.write(answerOf(m.raw))
		c.port.written(c.of, c.by, m.seq, false)
		return nil
	}
	if err := c.start(); err != nil {
		return err
	}
	if m.raw != nil {
		ev := wire.Event{Data: m.raw, HasID: c.port.keep}
		if c.port.keep {
			ev.ID = c.of.eventID(m.seq)
		}
		if err := c.out.Write(ev); err != nil {
			return err
		}
	}
	c.port.written(c.of, c.by, m.seq, c.port.keep)
	return nil
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
				a.status, a.retry = http.StatusServiceUnavailable, true
			}
		}
	}
	return a
}

func startStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", wire.ContentSSE)
	h.Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // the first write tells whether the client is there
}
