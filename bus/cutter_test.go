package bus_test

import (
	"bytes"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
)

// cutter hands on connections whose answers to publishes can be lost on the way: the connection breaks
// when one comes in, after the server has stored what it answers.
type cutter struct {
	provider nats.InProcessConnProvider

	mu      sync.Mutex // covers the fields below
	pattern []byte
	left    int
	dropped int
}

// cutOn loses the next n pieces of traffic that hold the pattern.
func (c *cutter) cutOn(pattern string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pattern, c.left = []byte(pattern), n
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

func (c *cutter) hit(b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 || !bytes.Contains(b, c.pattern) {
		return false
	}
	c.left--
	c.dropped++
	return true
}

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
	if n > 0 && c.c.hit(b[:n]) {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}
