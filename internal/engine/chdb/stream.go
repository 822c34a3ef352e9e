package chdb

import (
	"errors"
	"unsafe"
)

// Stream is a running statement whose result comes in chunks. It belongs to one connection and must be closed before
// the next statement runs there.
type Stream struct {
	conn   *Conn
	handle unsafe.Pointer
	ended  bool
}

// Stream starts a statement. An error of parsing or planning is returned here, one of execution by [Stream.Next].
func (c *Conn) Stream(sql, format string, params ...Param) (*Stream, error) {
	if c.handle == nil {
		return nil, errClosed
	}
	text := newText(sql, format, params)
	defer text.release()
	handle := c.lib.fn.streamQuery(c.handle, text.sql, text.sqlLen, text.format, text.formatLen,
		text.names, text.nameLens, text.values, text.valueLens, text.count)
	if handle == nil {
		return nil, errors.New("engine returned no stream")
	}
	if message := c.lib.fn.resultError(handle); message != "" {
		c.lib.fn.resultDestroy(handle)
		return nil, newError(message)
	}
	return &Stream{conn: c, handle: handle}, nil
}

// Next returns the next chunk, a copy, or nil at the end of the result.
func (s *Stream) Next() ([]byte, Stats, error) {
	if s.ended {
		return nil, Stats{}, nil
	}
	data, stats, err := s.conn.lib.take(s.conn.lib.fn.streamFetch(s.conn.handle, s.handle))
	if err != nil || len(data) == 0 {
		s.ended = true
	}
	return data, stats, err
}

// Close stops the statement if it still runs and releases it. A second Close does nothing.
func (s *Stream) Close() {
	if s.handle == nil {
		return
	}
	if !s.ended {
		s.conn.lib.fn.streamCancel(s.conn.handle, s.handle)
		s.ended = true
	}
	s.conn.lib.fn.resultDestroy(s.handle)
	s.handle = nil
}
