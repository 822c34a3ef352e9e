package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
)

// SSEClient is a [Conn] over the HTTP+SSE transport of 2024-11-05: one event stream carries all that
// the server says, and names the endpoint that messages are posted to. When the stream ends, the
// session has ended; there is no resumption.
type SSEClient struct {
	url    string
	opts   HTTPOptions
	own    bool
	named  chan struct{} // closed when the endpoint is known, or the stream ended before
	once   sync.Once     // closes named
	closed chan struct{} // closed by Close
	work   sync.WaitGroup

	mu       sync.Mutex // covers the rest
	ending   bool
	cancel   map[uint64]context.CancelCauseFunc // of what is under way
	next     uint64
	endpoint string // "" until the stream named it
	lost     error  // why the stream ended; nil while it has not
}

// NewSSEClient talks to the server whose event stream is at url. The stream is opened by Receive;
// HTTPOptions.Listen and Mirror have no meaning here.
func NewSSEClient(url string, opts *HTTPOptions) *SSEClient {
	c := &SSEClient{url: url, named: make(chan struct{}), closed: make(chan struct{}), cancel: make(map[uint64]context.CancelCauseFunc)}
	c.opts, c.own = opts.withDefaults()
	return c
}

// Receive implements [Conn]. An error that is a *[StatusError], or names what came instead, tells
// that there is no such stream.
func (c *SSEClient) Receive(ctx context.Context, deliver func([]byte), skipped func(error)) error {
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return nil // it is closed: the orderly end
	}
	defer done()
	err = c.receive(ctx, deliver, skipped)
	if ctx.Err() != nil {
		err = nil // likewise
	}
	c.mu.Lock()
	c.lost = ErrDisconnected
	if err != nil {
		c.lost = fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	c.mu.Unlock()
	c.once.Do(func() { close(c.named) })
	return err
}

func (c *SSEClient) receive(ctx context.Context, deliver func([]byte), skipped func(error)) error {
	body, err := openSSE(ctx, c.url, &c.opts)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	events := NewSSEReader(body, c.opts.MaxMessage)
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, ErrTooLarge):
			if skipped != nil {
				skipped(err)
			}
		case errors.Is(err, io.EOF):
			return errStreamClosed
		case err != nil:
			return fmt.Errorf("read stream: %w", err)
		case ev.Type == "endpoint":
			if err := c.name(string(ev.Data)); err != nil {
				return err
			}
		case (ev.Type == "" || ev.Type == "message") && len(ev.Data) > 0:
			deliver(ev.Data)
		}
	}
}

// openSSE opens an event stream.
func openSSE(ctx context.Context, at string, opts *HTTPOptions) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	for name, values := range opts.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Accept", ContentSSE)
	resp, err := opts.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	content, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && content == ContentSSE {
		return resp.Body, nil
	}
	_ = resp.Body.Close()
	return nil, fmt.Errorf("open stream: %w", statusError(resp))
}

// name takes the endpoint. It MUST be of the stream's own origin: a server must not send our messages,
// and our headers, elsewhere.
func (c *SSEClient) name(ref string) error {
	base, err := url.Parse(c.url)
	if err != nil {
		return fmt.Errorf("read endpoint: %w", err)
	}
	at, err := base.Parse(ref)
	if err != nil {
		return errors.New("read endpoint: it is no URL")
	}
	if at.Scheme != base.Scheme || at.Host != base.Host {
		return fmt.Errorf("read endpoint: it is at %.100q, not at the stream's %.100q", at.Host, base.Host)
	}
	c.mu.Lock()
	c.endpoint = at.String()
	c.mu.Unlock()
	c.once.Do(func() { close(c.named) })
	return nil
}

// Send implements [Conn]: it posts one message. The answer comes by Receive.
func (c *SSEClient) Send(ctx context.Context, raw []byte, _ func([]byte)) error {
	select {
	case <-c.named:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closed:
		return ErrClosed
	}
	own, done, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	c.mu.Lock()
	endpoint, err := c.endpoint, c.lost
	c.mu.Unlock()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(own, http.MethodPost, endpoint, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("post message: %w", err)
	}
	for name, values := range c.opts.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Content-Type", ContentJSON)
	resp, err := c.opts.Client.Do(req)
	if err != nil {
		if own.Err() != nil {
			return context.Cause(own)
		}
		return fmt.Errorf("post message: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusNotFound:
		return ErrSessionLost
	}
	return fmt.Errorf("post message: %w", statusError(resp))
}

// begin gives something under way its context, which Close ends, too. done MUST be called once.
func (c *SSEClient) begin(ctx context.Context) (own context.Context, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return nil, nil, ErrClosed
	}
	own, cancel := context.WithCancelCause(ctx)
	c.next++
	n := c.next
	c.cancel[n] = cancel
	c.work.Add(1)
	return own, func() {
		cancel(nil)
		c.mu.Lock()
		delete(c.cancel, n)
		c.mu.Unlock()
		c.work.Done()
	}, nil
}

// Close implements [Conn]: it ends the stream, and with it the session, and waits for what is under
// way.
func (c *SSEClient) Close() error {
	c.mu.Lock()
	if c.ending {
		c.mu.Unlock()
		return nil
	}
	c.ending = true
	for _, cancel := range c.cancel {
		cancel(ErrClosed)
	}
	c.mu.Unlock()
	close(c.closed)
	c.work.Wait()
	if c.own {
		c.opts.Client.CloseIdleConnections()
	}
	return nil
}
