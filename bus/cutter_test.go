package bus_test

import (
	"bytes"
	"net"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// cutter hands on connections whose answers to publishes can be lost on the way: the connection breaks
// when one comes in, after the server has stored what it answers.
type cutter struct {
	provider nats.InProcessConnProvider
	drops    atomic.Int64
	dropped  atomic.Int64
}

func (c *cutter) dropAnswers(n int64) { c.drops.Store(n) }

func (c *cutter) InProcessConn() (net.Conn, error) {
	conn, err := c.provider.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &cutConn{conn, c}, nil
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && bytes.Contains(b[:n], []byte(`{"stream":"CHAINTRAIL_`)) && c.c.drops.Add(-1) >= 0 {
		c.c.dropped.Add(1)
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}
