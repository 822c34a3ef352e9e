package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is one server-sent event.
type Event struct {
	ID    string        // last event id in force; see HasID
	HasID bool          // the event itself carried an id field
	Type  string        // empty means "message"
	Data  []byte        // lines joined by \n; empty for an event that only carries an id or a retry
	Retry time.Duration // reconnection time the event carried, 0 when none

	// Comment tells that it is no event but a comment, with its text in Data; see SSEReader.Comments.
	Comment bool
}

// SSEReader reads a text/event-stream by the WHATWG rules, save that events which only carry an id
// or a retry are returned too, so that they can be relayed. One goroutine at a time.
type SSEReader struct {
	// Comments has comments between events returned, too: a proxy relays them, because they keep
	// connections alive. They are dropped otherwise, and inside events.
	Comments bool

	in     *bufio.Reader
	max    int
	began  bool // the place of a byte order mark is passed
	skipLF bool // the last line ended in CR: an LF that follows belongs to it
	line   []byte
	lastID string
}

// NewSSEReader reads from r; an event with more than maxEvent bytes (0 means DefaultMaxMessage) is
// skipped with an error.
func NewSSEReader(r io.Reader, maxEvent int) *SSEReader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxMessage
	}
	return &SSEReader{in: bufio.NewReader(r), max: maxEvent}
}

// LastID is the last event id in force.
func (s *SSEReader) LastID() string { return s.lastID }

// Next returns the next event; its Data is the caller's. An error that is [ErrTooLarge] tells that
// one event was skipped: read on. io.EOF is the end; an event without its blank line is dropped.
func (s *SSEReader) Next() (Event, error) {
	var ev Event
	size, lines, tooLarge := 0, 0, false
	for {
		line, err := s.readLine(s.max - size)
		if errors.Is(err, ErrTooLarge) {
			tooLarge, ev.Data = true, nil
			continue
		}
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			switch {
			case tooLarge:
				return Event{}, fmt.Errorf("%w: event exceeds %d bytes and was skipped", ErrTooLarge, s.max)
			case lines > 0 || ev.HasID || ev.Retry > 0:
				ev.ID = s.lastID
				return ev, nil
			}
			ev = Event{}
			size = 0
			continue
		}
		if tooLarge {
			continue
		}
		if line[0] == ':' {
			if s.Comments && size == 0 {
				return Event{Comment: true, Data: bytes.Clone(bytes.TrimPrefix(line[1:], []byte(" ")))}, nil
			}
			continue
		}
		size += len(line)
		if s.field(&ev, line, &lines); size > s.max {
			tooLarge, ev.Data = true, nil
		}
	}
}

// field takes one line that is not blank.
func (s *SSEReader) field(ev *Event, line []byte, dataLines *int) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if *dataLines++; *dataLines > 1 {
			ev.Data = append(ev.Data, '\n')
		}
		ev.Data = append(ev.Data, value...)
	case "event":
		ev.Type = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			s.lastID, ev.HasID = string(value), true
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			ev.Retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// readLine returns a line without its end, valid until the next call. It does not wait for the byte
// behind a CR. A longer line than limit is read to its end and refused.
func (s *SSEReader) readLine(limit int) ([]byte, error) {
	s.line = s.line[:0]
	tooLong := false
	for {
		if _, err := s.in.Peek(1); err != nil {
			return nil, err
		}
		buf, _ := s.in.Peek(s.in.Buffered())
		if !s.began {
			if s.began = true; s.skipMark() {
				continue
			}
		}
		if s.skipLF {
			s.skipLF = false
			if buf[0] == '\n' {
				_, _ = s.in.Discard(1)
				continue
			}
		}
		end := bytes.IndexByte(buf, '\n')
		if end < 0 {
			end = len(buf)
		}
		if cr := bytes.IndexByte(buf[:end], '\r'); cr >= 0 {
			end, s.skipLF = cr, true
		}
		if tooLong = tooLong || len(s.line)+end > limit; !tooLong {
			s.line = append(s.line, buf[:end]...)
		}
		ended := end < len(buf)
		_, _ = s.in.Discard(min(end+1, len(buf)))
		switch {
		case ended && tooLong:
			return nil, ErrTooLarge
		case ended:
			return s.line, nil
		}
	}
}

// skipMark drops a UTF-8 byte order mark at the start of the stream.
func (s *SSEReader) skipMark() bool {
	if mark, err := s.in.Peek(1); err != nil || mark[0] != 0xEF {
		return false
	}
	if mark, err := s.in.Peek(3); err != nil || !bytes.Equal(mark, []byte("\xEF\xBB\xBF")) {
		return false
	}
	_, _ = s.in.Discard(3)
	return true
}

// SSEWriter writes a text/event-stream. One goroutine at a time.
type SSEWriter struct {
	out   io.Writer
	flush func() error
	buf   []byte
}

// NewSSEWriter writes to w, and flushes after each event if w is an http.ResponseWriter.
func NewSSEWriter(w io.Writer) *SSEWriter {
	s := &SSEWriter{out: w, flush: func() error { return nil }}
	if rw, ok := w.(http.ResponseWriter); ok {
		s.flush = http.NewResponseController(rw).Flush
	}
	return s
}

// Write writes one event and flushes. Line ends inside Data (white space between tokens, for JSON)
// come out as \n. A line end in ID or Type is an error; an empty Type is left out.
func (s *SSEWriter) Write(ev Event) error {
	if ev.Comment {
		return s.Comment(string(ev.Data))
	}
	if strings.ContainsAny(ev.ID, "\r\n\x00") || strings.ContainsAny(ev.Type, "\r\n") {
		return errors.New("write event: line end in id or type")
	}
	b := s.buf[:0]
	if ev.HasID {
		b = append(append(append(b, "id: "...), ev.ID...), '\n')
	}
	if ev.Type != "" {
		b = append(append(append(b, "event: "...), ev.Type...), '\n')
	}
	if ev.Retry > 0 {
		b = append(strconv.AppendInt(append(b, "retry: "...), ev.Retry.Milliseconds(), 10), '\n')
	}
	for data, more := ev.Data, true; more; {
		end := bytes.IndexAny(data, "\r\n")
		line, rest := data, []byte(nil)
		if more = end >= 0; more {
			line, rest = data[:end], data[end+1:]
			if data[end] == '\r' {
				rest = bytes.TrimPrefix(rest, []byte("\n"))
			}
		}
		b = append(append(append(b, "data: "...), line...), '\n')
		data = rest
	}
	return s.writeOut(append(b, '\n'))
}

// Comment writes a comment, which keeps the connection alive.
func (s *SSEWriter) Comment(text string) error {
	text = strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	return s.writeOut(append(append(append(s.buf[:0], ": "...), text...), "\n\n"...))
}

func (s *SSEWriter) writeOut(b []byte) error {
	if s.buf = b; cap(b) > 4*lineBuffer {
		s.buf = nil
	}
	if _, err := s.out.Write(b); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("flush event: %w", err)
	}
	return nil
}
