package wire

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// URLClient is a [Conn] to a server of which only the URL is known. It begins with streamable HTTP.
// Where the first initialize is refused with status 400, 404 or 405 and the URL has an event stream
// of 2024-11-05, it goes on with that (specification, "Transports", Backwards Compatibility).
type URLClient struct {
	http    *HTTPClient
	url     string
	opts    *HTTPOptions
	decided chan struct{} // closed when sse is set, or the server speaks streamable HTTP
	closed  chan struct{}
	once    sync.Once
	closing sync.Once

	mu    sync.Mutex // held by the first initialize until it is decided
	sse   *SSEClient // nil: streamable HTTP
	ended bool
}

// NewURLClient talks to the MCP endpoint at url.
func NewURLClient(url string, opts *HTTPOptions) *URLClient {
	return &URLClient{http: NewHTTPClient(url, opts), url: url, opts: opts, decided: make(chan struct{}), closed: make(chan struct{})}
}

// Send implements [Conn].
func (c *URLClient) Send(ctx context.Context, raw []byte, deliver func([]byte)) error {
	select {
	case <-c.decided:
		return c.conn().Send(ctx, raw, deliver)
	default:
	}
	if inspect(raw).method != methodInitialize {
		return c.http.Send(ctx, raw, deliver)
	}
	c.mu.Lock()
	select {
	case <-c.decided:
		c.mu.Unlock()
		return c.conn().Send(ctx, raw, deliver)
	default:
	}
	err := c.http.Send(ctx, raw, deliver)
	if !Outdated(err) || !HasSSE(ctx, c.url, c.opts) || c.ended {
		if err == nil {
			c.once.Do(func() { close(c.decided) })
		}
		c.mu.Unlock()
		return err
	}
	c.sse = NewSSEClient(c.url, c.opts)
	c.mu.Unlock()
	c.once.Do(func() { close(c.decided) })
	return c.sse.Send(ctx, raw, deliver)
}

// Outdated reports whether the refusal of an initialize leaves hope for the transport of 2024-11-05.
func Outdated(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && OutdatedStatus(e.Status)
}

// OutdatedStatus reports whether a server that refuses initialize with that HTTP status may speak the
// transport of 2024-11-05.
func OutdatedStatus(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// HasSSE reports whether there is an event stream of 2024-11-05 at url: one whose first event names an
// endpoint. It opens a session that it leaves at once.
func HasSSE(ctx context.Context, url string, opts *HTTPOptions) bool {
	ctx, cancel := context.WithTimeout(ctx, drainLimit*5)
	defer cancel()
	o, own := opts.withDefaults()
	if own {
		defer o.Client.CloseIdleConnections()
	}
	body, err := openSSE(ctx, url, &o)
	if err != nil {
		return false
	}
	defer func() { _ = body.Close() }()
	ev, err := NewSSEReader(body, maxEndpoint).Next()
	return err == nil && ev.Type == "endpoint"
}

// maxEndpoint bounds the event that names an endpoint.
const maxEndpoint = 64 << 10

func (c *URLClient) conn() Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sse != nil {
		return c.sse
	}
	return c.http
}

// Receive implements [Conn].
func (c *URLClient) Receive(ctx context.Context, deliver func([]byte), skipped func(error)) error {
	select {
	case <-c.decided:
	case <-c.closed:
		return nil
	case <-ctx.Done():
		return nil
	}
	return c.conn().Receive(ctx, deliver, skipped)
}

// Synchronous tells that Send returns with the answer, not when the message is written: that is so
// until the server proves to speak the older transport.
func (c *URLClient) Synchronous() bool {
	select {
	case <-c.decided:
		_, is := c.conn().(*HTTPClient)
		return is
	default:
		return true
	}
}

// Close implements [Conn].
func (c *URLClient) Close() error {
	c.closing.Do(func() { close(c.closed) })
	err := c.http.Close() // ends a first initialize, too
	c.mu.Lock()
	c.ended = true
	sse := c.sse
	c.mu.Unlock()
	if sse != nil {
		return errors.Join(err, sse.Close())
	}
	return err
}
