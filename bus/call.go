package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// errCut ends a wait for an answer that will not come: the connection it was to come on is gone. What
// was asked for may have been done.
var errCut = errors.New("the connection was lost before the answer")

// caller sends requests and waits for their answers, one at a time. Unlike the client's own requests it
// notices at once when the connection is lost, instead of waiting for the time to run out. Not for
// concurrent use.
type caller struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	in     chan *nats.Msg
	states chan nats.Status
	inbox  string
	calls  uint64
	timer  *time.Timer
}

func newCaller(nc *nats.Conn) (*caller, error) {
	c := &caller{nc: nc, in: make(chan *nats.Msg, 64), inbox: nats.NewInbox() + "."}
	var err error
	if c.sub, err = nc.ChanSubscribe(c.inbox+"*", c.in); err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	c.states = watch(nc)
	c.timer = time.NewTimer(time.Hour)
	return c, nil
}

func (c *caller) close() {
	_ = c.sub.Unsubscribe()
	c.nc.RemoveStatusListener(c.states)
	c.timer.Stop()
}

// do sends m, whose Reply it sets, and returns the answer.
func (c *caller) do(ctx context.Context, m *nats.Msg, timeout time.Duration) (*nats.Msg, error) {
	for len(c.states) > 0 {
		<-c.states
	}
	c.calls++
	m.Reply = c.inbox + strconv.FormatUint(c.calls, 10)
	if err := c.nc.PublishMsg(m); err != nil {
		return nil, err
	}
	c.timer.Reset(timeout)
	for {
		select {
		case answer := <-c.in:
			if answer.Subject != m.Reply {
				continue // to a call that was given up
			}
			if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
				return nil, nats.ErrNoResponders
			}
			return answer, nil
		case <-c.states:
			return nil, errCut
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.timer.C:
			return nil, nats.ErrTimeout
		}
	}
}

// call is one request with a caller of its own; it may be used concurrently.
func call(ctx context.Context, nc *nats.Conn, m *nats.Msg, timeout time.Duration) (*nats.Msg, error) {
	c, err := newCaller(nc)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.do(ctx, m, timeout)
}

// watch tells of lost connections until nc.RemoveStatusListener.
func watch(nc *nats.Conn) chan nats.Status {
	return nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
}
