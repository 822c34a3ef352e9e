package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// puller is a connection whose messages a caller can read itself while it waits. To be woken by another goroutine that
// reads costs a call more than all of its own work; seen: 10 µs and more from thread to thread.
//
// One at a time reads, for all: who holds the token of Client.role. A call that waits takes it if it is free, reads
// until its own answer has come, and leaves it to the next. While calls come, nobody else reads; when none came for
// restTime, Run does, so that a lost connection and what the server says by itself are noticed.
type puller interface {
	ReadMessage() ([]byte, error)
	interruptible() bool
	interrupt()
	resume()
}

// restTime is how long nobody reads after the last call.
const restTime = 10 * time.Millisecond

// pullerOf returns nil for a connection whose reads cannot be interrupted: its caller could not give up.
func pullerOf(conn Conn) puller {
	if p, ok := conn.(puller); ok && p.interruptible() {
		return p
	}
	return nil
}

// rest reads while no calls come, and waits while they do. It returns when the connection ends, with the reason.
func (c *Client) rest() error {
	timer := time.NewTimer(restTime)
	defer timer.Stop()
	for {
		select {
		case c.role <- struct{}{}:
			c.pull.resume()
			calls := c.calls.Load()
			for reading := true; reading; {
				reading = c.readOne() && c.calls.Load() == calls
			}
			<-c.role
		case <-c.over:
			return c.cause
		}
		for calls := uint64(0); calls != c.calls.Load(); {
			calls = c.calls.Load()
			timer.Reset(restTime)
			select {
			case <-timer.C:
			case <-c.over:
				return c.cause
			}
		}
	}
}

// lead reads for all until the call's answer has come, its ctx is done, or the connection has ended. It is entered
// with the token of role and gives it back.
func (c *Client) lead(ctx context.Context, wait <-chan answer) (a answer, ok bool) {
	defer func() { <-c.role }()
	c.pull.resume() // before ctx is looked at: whoever interrupts it later meets the read
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, c.pull.interrupt)() // may come late: the next reader then resumes
	}
	for {
		select {
		case a = <-wait:
			return a, true
		default:
		}
		if ctx.Err() != nil || !c.readOne() {
			return answer{}, false
		}
	}
}

// readOne takes one message; false means that the connection has ended. The caller holds the token of role.
func (c *Client) readOne() bool {
	raw, err := c.pull.ReadMessage()
	switch {
	case err == nil:
		c.dispatch(raw)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.pull.resume()
	case errors.Is(err, ErrTooLarge):
		c.skipped(err)
	default:
		c.once.Do(func() {
			if !errors.Is(err, io.EOF) && !errors.Is(err, ErrClosed) {
				c.cause = fmt.Errorf("read line: %w", err)
			}
			close(c.over)
		})
		return false
	}
	return true
}
