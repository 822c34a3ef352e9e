package chain

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// countedConn tells how it is used.
type countedConn struct {
	lost   chan struct{}
	closed int
}

func (c *countedConn) Call(context.Context, string, jsonx.Value) (jsonx.Value, error) {
	return nil, nil
}
func (c *countedConn) Done() <-chan struct{} { return c.lost }
func (c *countedConn) Close() error          { c.closed++; return nil }

func TestSharing(t *testing.T) {
	t.Parallel()
	var s Sharing
	var made []*countedConn
	open := func(context.Context) (Conn, error) {
		c := &countedConn{lost: make(chan struct{})}
		made = append(made, c)
		return c, nil
	}
	connect := func(f func(context.Context) (Conn, error)) Conn {
		t.Helper()
		c, err := f(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := s.Connect("a", open), s.Connect("a", open)
	one, two := connect(first), connect(second)
	other := connect(s.Connect("b", open))
	if len(made) != 2 {
		t.Fatalf("%d connections for two servers", len(made))
	}
	for range 2 {
		_ = one.Close() // twice is once
	}
	if made[0].closed != 0 {
		t.Error("closed while it has a user")
	}
	three := connect(first) // its own was lost, it says
	if len(made) != 3 {
		t.Error("a set that connects again got its lost connection")
	}
	_ = two.Close()
	if made[0].closed != 1 {
		t.Errorf("closed %d times after its last user", made[0].closed)
	}
	close(made[2].lost)
	four := connect(second)
	if len(made) != 4 {
		t.Error("a lost connection was shared")
	}
	for _, c := range []Conn{three, four, other} {
		_ = c.Close()
	}
	for i, c := range made {
		if c.closed != 1 {
			t.Errorf("connection %d was closed %d times", i, c.closed)
		}
	}
	if len(s.places) != 0 {
		t.Errorf("%d places are left", len(s.places))
	}
	failing := s.Connect("c", func(context.Context) (Conn, error) { return nil, errors.New("no") })
	if _, err := failing(t.Context()); err == nil || len(s.places) != 0 {
		t.Errorf("error %v, %d places", err, len(s.places))
	}
}

func TestSharingIsConcurrent(t *testing.T) {
	t.Parallel()
	var s Sharing
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				c, err := s.Connect("a", func(context.Context) (Conn, error) {
					return &countedConn{lost: make(chan struct{})}, nil
				})(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if held := c.(*lease).Conn.(*countedConn); held.closed != 0 {
					t.Error("got a closed connection")
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
}
