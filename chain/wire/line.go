package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of line connections.
const (
	DefaultMaxMessage   = 64 << 20         // bytes of one message
	DefaultWriteTimeout = 30 * time.Second // how long a peer may not read
	lineBuffer          = 64 << 10
)

// LineOptions configure a [LineConn]; nil is allowed.
type LineOptions struct {
	MaxMessage   int           // bytes of one line; 0 means DefaultMaxMessage
	WriteTimeout time.Duration // bound of a write without a context deadline; 0 means DefaultWriteTimeout
}

// LineConn carries messages as lines (the stdio transport of MCP). Send may be called concurrently;
// ReadMessage and Receive by one goroutine at a time.
type LineConn struct {
	in           *bufio.Reader
	part         partLine
	out          io.WriteCloser
	closeIn      io.Closer // nil when the reader cannot be closed
	deadline     writeDeadliner
	readDeadline readDeadliner // nil when a read cannot be interrupted
	maxMessage   int
	writeTimeout time.Duration

	writing chan struct{} // holds a token while someone writes; covers broken and scratch
	broken  error         // set when a line was written in part
	scratch []byte
	closed  atomic.Bool
	once    sync.Once

	reading atomic.Bool
	ended   chan struct{} // closed when a read met the end
	endOnce sync.Once
}

// writeDeadliner is what files, pipes and sockets offer.
type writeDeadliner interface{ SetWriteDeadline(t time.Time) error }

// NewLineConn carries messages over r and w. If r is an io.Closer it is closed with the connection.
// Writes to a peer that does not read end at the context's deadline if w is a file or socket.
func NewLineConn(r io.Reader, w io.WriteCloser, opts *LineOptions) *LineConn {
	if opts == nil {
		opts = &LineOptions{}
	}
	c := &LineConn{
		in: bufio.NewReaderSize(r, lineBuffer), out: w,
		maxMessage: opts.MaxMessage, writeTimeout: opts.WriteTimeout,
		writing: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if c.maxMessage <= 0 {
		c.maxMessage = DefaultMaxMessage
	}
	if c.writeTimeout <= 0 {
		c.writeTimeout = DefaultWriteTimeout
	}
	c.closeIn, _ = r.(io.Closer)
	c.deadline, _ = w.(writeDeadliner)
	if d, ok := r.(readDeadliner); ok && d.SetReadDeadline(time.Time{}) == nil {
		c.readDeadline = d
	}
	return c
}

// ReadMessage returns the next line that is not blank, without its end; the slice is the caller's.
// An error that is [ErrTooLarge] tells that one line was skipped: read on. Any other error is the
// end of the connection; io.EOF is its orderly end.
func (c *LineConn) ReadMessage() ([]byte, error) {
	c.reading.Store(true)
	for {
		line, err := c.readLine()
		if errors.Is(err, ErrTooLarge) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		if err != nil {
			c.endOnce.Do(func() { close(c.ended) })
			if c.closed.Load() {
				return nil, ErrClosed
			}
			return nil, err
		}
		if line = bytes.TrimRight(line, " \t\r\n"); len(bytes.TrimLeft(line, " \t\r")) > 0 {
			return line, nil
		}
	}
}

// Receive hands each message to deliver until the connection ends; the orderly end is a nil error.
// Lines that are too large are given to oversize, which may be nil. It ends early only by Close.
func (c *LineConn) Receive(_ context.Context, deliver func(raw []byte), oversize func(error)) error {
	for {
		raw, err := c.ReadMessage()
		switch {
		case err == nil:
			deliver(raw)
		case errors.Is(err, ErrTooLarge):
			if oversize != nil {
				oversize(err)
			}
		case errors.Is(err, io.EOF) || errors.Is(err, ErrClosed):
			return nil
		default:
			return fmt.Errorf("read line: %w", err)
		}
	}
}

// Send writes one message as one line; line ends inside it, which can only be white space between
// tokens, become spaces. It returns when the bytes were handed to the operating system, or when ctx
// ends; a line that was written in part by then is finished behind the caller's back, so that the
// connection stays usable. A peer that does not read for the write timeout breaks it for good.
func (c *LineConn) Send(ctx context.Context, raw []byte, _ func([]byte)) error {
	select {
	case c.writing <- struct{}{}:
	default:
		select {
		case c.writing <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	switch {
	case c.broken != nil:
		<-c.writing
		return c.broken
	case c.closed.Load():
		<-c.writing
		return ErrClosed
	}
	line := c.frame(raw)
	until, ok := ctx.Deadline()
	if limit := time.Now().Add(c.writeTimeout); !ok || limit.Before(until) {
		until, ok = limit, false
	}
	n, err := c.write(line, until)
	if err != nil && n > 0 && ok && errors.Is(err, os.ErrDeadlineExceeded) {
		left := line.after(n)
		go func() { // exits when the peer read, by the write timeout, or by Close, which waits for its token
			_, err := c.write(left, time.Now().Add(c.writeTimeout))
			_ = c.written(1, err) // whoever writes next is told
		}()
		return fmt.Errorf("write line: %w", context.DeadlineExceeded)
	}
	if ok && errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.DeadlineExceeded // of ctx, whose own timer may be a moment late
	}
	return c.written(n, err)
}

// line is a message and its end, which for a small message stand in one buffer.
type line struct{ text, end []byte }

// after returns a copy of what is left behind n bytes: the text is the caller's.
func (l line) after(n int) line {
	return line{text: append(bytes.Clone(l.text[min(n, len(l.text)):]), l.end[max(0, n-len(l.text)):]...)}
}

// frame makes the line of a message. A large one is not copied if it is one line as it is.
func (c *LineConn) frame(raw []byte) line {
	if len(raw) > lineBuffer && bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return line{text: raw, end: []byte{'\n'}}
	}
	c.scratch = append(c.scratch[:0], raw...)
	oneLine(c.scratch)
	c.scratch = append(c.scratch, '\n')
	return line{text: c.scratch}
}

func (c *LineConn) write(l line, until time.Time) (int, error) {
	if c.deadline != nil {
		if err := c.deadline.SetWriteDeadline(until); err != nil {
			c.deadline = nil // not pollable: a write then blocks until the peer reads or closes
		}
	}
	n, err := c.out.Write(l.text)
	if err != nil || len(l.end) == 0 {
		return n, err
	}
	m, err := c.out.Write(l.end)
	return n + m, err
}

// written ends a Send: it notes whether the connection can go on, and lets the next one write.
func (c *LineConn) written(n int, err error) error {
	if cap(c.scratch) > 4*lineBuffer {
		c.scratch = nil
	}
	if err != nil {
		err = fmt.Errorf("write line: %w", err)
		if c.closed.Load() {
			err = ErrClosed
		}
		if n > 0 {
			c.broken = fmt.Errorf("%w: line written in part: %w", ErrDisconnected, err)
		}
	}
	<-c.writing
	return err
}

// CloseWrite closes the writing side: a stdio peer takes it as the order to end.
func (c *LineConn) CloseWrite() error {
	var err error
	c.once.Do(func() { err = c.out.Close() })
	return err
}

// Close closes both sides and ends a blocked read if the reader can be closed.
func (c *LineConn) Close() error {
	c.closed.Store(true)
	err := c.CloseWrite()
	c.waitWriter()
	if c.closeIn != nil {
		err = errors.Join(err, c.closeIn.Close())
	}
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// waitWriter waits until nobody writes any more. Where closing does not end a write (a standard output
// that cannot be polled) that may be never: then only for drainWait.
func (c *LineConn) waitWriter() {
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	select {
	case c.writing <- struct{}{}:
		<-c.writing
	case <-timer.C:
	}
}

// oneLine replaces line ends in place.
func oneLine(b []byte) {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return
	}
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}
