package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// readDeadliner is what pipes and sockets offer, and files that can be polled.
type readDeadliner interface{ SetReadDeadline(t time.Time) error }

// partLine is what is known of a line whose end was not read yet. It outlives an interrupted read.
type partLine struct {
	scanned int      // bytes of the buffer that hold no line end
	pieces  [][]byte // what came before the buffer; joined once, because growing one slice would copy a long line many times
	size    int      // of the pieces, also of those that were dropped because the line is too long
}

// readLine returns the next line with its end. A read that was interrupted goes on where it was.
func (c *LineConn) readLine() ([]byte, error) {
	for {
		chunk, _ := c.in.Peek(c.in.Buffered())
		if end := bytes.IndexByte(chunk[c.part.scanned:], '\n'); end >= 0 {
			return c.takeLine(chunk[:c.part.scanned+end+1], nil)
		}
		c.part.scanned = len(chunk)
		if len(chunk) == c.in.Size() {
			c.keepPiece(chunk)
			continue
		}
		if _, err := c.in.Peek(len(chunk) + 1); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil, err
			}
			chunk, _ = c.in.Peek(c.in.Buffered())
			return c.takeLine(chunk, err)
		}
	}
}

// tooLong reports whether a line of that many bytes, with its end, is refused without a look at it.
func (c *LineConn) tooLong(size int) bool { return size > c.maxMessage+len("\r\n") }

// keepPiece empties the full buffer.
func (c *LineConn) keepPiece(chunk []byte) {
	c.part.scanned = 0
	if c.part.size += len(chunk); c.tooLong(c.part.size) {
		c.part.pieces = nil
	} else {
		c.part.pieces = append(c.part.pieces, bytes.Clone(chunk))
	}
	_, _ = c.in.Discard(len(chunk))
}

// takeLine ends a line with the last piece of it, or with the error that there is no more of it.
func (c *LineConn) takeLine(chunk []byte, err error) ([]byte, error) {
	var line []byte
	tooLong := c.tooLong(c.part.size + len(chunk))
	switch {
	case tooLong:
	case c.part.pieces == nil:
		line = bytes.Clone(chunk)
	default:
		line = bytes.Join(append(c.part.pieces, chunk), nil)
	}
	c.part = partLine{}
	_, _ = c.in.Discard(len(chunk))
	switch {
	case tooLong || len(bytes.TrimRight(line, "\r\n")) > c.maxMessage:
		return nil, fmt.Errorf("%w: line exceeds %d bytes and was skipped", ErrTooLarge, c.maxMessage)
	case errors.Is(err, io.EOF) && len(bytes.Trim(line, " \t\r\n")) > 0:
		return line, nil // a last line without its end; the next read says EOF
	case errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe):
		return nil, ErrClosed
	case err != nil:
		return nil, err
	}
	return line, nil
}

// Pending reports whether a part of the next message was read with the last one; for whoever called ReadMessage.
func (c *LineConn) Pending() bool { return c.in.Buffered() > 0 }

// interruptible reports whether a read can be interrupted.
func (c *LineConn) interruptible() bool { return c.readDeadline != nil }

// interrupt has the read under way, or the next one, end with [os.ErrDeadlineExceeded]; nothing is lost by it.
func (c *LineConn) interrupt() { _ = c.readDeadline.SetReadDeadline(time.Unix(1, 0)) }

// resume ends an interruption.
func (c *LineConn) resume() { _ = c.readDeadline.SetReadDeadline(time.Time{}) }
