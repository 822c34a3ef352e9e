package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// dispatch takes one message from the server. It never blocks.
func (c *Client) dispatch(raw []byte) {
	msg, err := Parse(raw, c.opts.Limits)
	if err != nil {
		c.dispatchBad(err)
		return
	}
	switch msg.Kind {
	default: // Parse gave an error for it
	case KindResponse:
		c.resolve(msg.ID, answer{result: msg.Result})
	case KindError:
		c.resolve(msg.ID, answer{err: msg.RPCError()})
	case KindRequest:
		if msg.Method == MethodPing {
			c.enqueue(NewResponse(msg.ID, nil))
			return
		}
		c.enqueue(NewErrorAnswer(msg.ID, c.opts.Refusal))
	case KindNotification:
		if c.opts.Notification != nil {
			c.opts.Notification(msg.Method, msg.Params)
		}
	}
}

// dispatchBad fails the call whose answer could not be read, if its id could be.
func (c *Client) dispatchBad(err error) {
	if batch, ok := errors.AsType[*BatchError](err); ok {
		for _, entry := range batch.Entries {
			if entry[0] == '[' { // a batch in a batch is none
				c.malformed.Add(1)
				continue
			}
			c.dispatch(entry)
		}
		return
	}
	c.malformed.Add(1)
	if bad, ok := errors.AsType[*ParseError](err); ok && bad.ID != nil {
		c.resolve(bad.ID, answer{err: fmt.Errorf("malformed answer: %w", err)})
		return
	}
	c.opts.Logger.Warn("malformed message from server", slog.Any("error", err))
}

// resolve hands an answer to the call that waits for it.
func (c *Client) resolve(id jsonx.Value, a answer) {
	key, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		key, err = strconv.ParseUint(IDKey(id), 10, 64)
	}
	var wait chan answer
	if err == nil {
		c.mu.Lock()
		wait = c.pending[key]
		delete(c.pending, key)
		c.mu.Unlock()
	}
	if wait == nil {
		c.unknown.Add(1)
		return
	}
	wait <- a // has room: only who took it from pending sends
}
