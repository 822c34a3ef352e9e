package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// HTTPOptions configure an [HTTPClient]; nil is allowed.
type HTTPOptions struct {
	Client     *http.Client // nil means one with its own transport
	Header     http.Header  // added to each request: Authorization and the like
	MaxMessage int          // bytes of an answer or event; 0 means DefaultMaxMessage
	Listen     bool         // open the GET stream of a session, for what the server sends unasked
	CloseWait  time.Duration
	// Mirror sets headers that repeat arguments of a request (2026-07-28, Mcp-Param-*); nil: none.
	Mirror func(h http.Header, method string, params jsonx.Value)
}

// HTTPClient is a [Conn] over the streamable HTTP transport of both protocol generations. It learns
// session and protocol version from the handshake that passes through it.
type HTTPClient struct {
	url    string
	opts   HTTPOptions
	own    bool           // the transport is ours to close
	closed chan struct{}  // closed by Close, after closing was set
	done   sync.WaitGroup // exchanges under way
	once   sync.Once
	ready  chan struct{} // has a token when a session began that nobody listens to yet

	mu      sync.Mutex // covers the rest
	closing bool
	flights map[*flight]struct{}
	session string
	version string // "" before the handshake
}

// NewHTTPClient talks to the MCP endpoint at url.
func NewHTTPClient(url string, opts *HTTPOptions) *HTTPClient {
	c := &HTTPClient{
		url: url, closed: make(chan struct{}), ready: make(chan struct{}, 1), flights: map[*flight]struct{}{},
	}
	c.opts, c.own = opts.withDefaults()
	return c
}

// withDefaults fills what is left out; own tells that the transport is ours to close.
func (o *HTTPOptions) withDefaults() (out HTTPOptions, own bool) {
	if o != nil {
		out = *o
	}
	if out.MaxMessage <= 0 {
		out.MaxMessage = DefaultMaxMessage
	}
	if out.CloseWait <= 0 {
		out.CloseWait = 2 * time.Second
	}
	if out.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		transport.DisableCompression = true
		out.Client, own = &http.Client{Transport: transport}, true
	}
	return out, own
}

// flight is the life of one exchange. It ends with the caller's context, by Close or by finish.
type flight struct {
	cancel context.CancelFunc
	detach func() bool // from the caller's context
}

// begin gives an exchange a context that may outlive the caller's, so that the end of a stream can
// still be read.
func (c *HTTPClient) begin(ctx context.Context) (context.Context, *flight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil, nil, ErrClosed
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{cancel: cancel, detach: context.AfterFunc(ctx, cancel)}
	c.flights[f] = struct{}{}
	c.done.Add(1)
	return own, f, nil
}

// finish MUST be called once for each begin.
func (c *HTTPClient) finish(f *flight) {
	f.detach()
	f.cancel()
	c.mu.Lock()
	delete(c.flights, f)
	c.mu.Unlock()
	c.done.Done()
}

// outgoing is what Send must know of a message that we built ourselves.
type outgoing struct {
	raw    []byte
	id     jsonx.Value
	method string
	params jsonx.Value
}

func inspect(raw []byte) outgoing {
	out := outgoing{raw: raw}
	for m := range jsonx.Members(raw) {
		switch string(m.Name) {
		case "id":
			out.id = m.Value
		case "method":
			out.method, _ = jsonx.StringOf(m.Value)
		case "params":
			out.params = m.Value
		}
	}
	return out
}

// isCall tells whether an answer is due.
func (o *outgoing) isCall() bool { return o.id != nil && o.method != "" }

// Send posts one message, and for a request returns after its answer was delivered. The error wraps
// [ErrSessionLost], [ErrNoAnswer], [ErrTooLarge] or a *[StatusError] where these apply.
func (c *HTTPClient) Send(ctx context.Context, raw []byte, deliver func([]byte)) error {
	own, f, err := c.begin(ctx)
	if err != nil {
		return err
	}
	draining, err := c.exchange(own, f, raw, deliver)
	if !draining {
		c.finish(f)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case own.Err() != nil && !draining:
		select {
		case <-c.closed:
			return ErrClosed
		default:
		}
	}
	return err
}

// exchange posts a message; draining means that the flight is finished by someone else.
func (c *HTTPClient) exchange(
	ctx context.Context, f *flight, raw []byte, deliver func([]byte),
) (draining bool, err error) {
	msg := inspect(raw)
	session, version := c.state()
	if meta := MetaOf(msg.params).ProtocolVersion; meta != "" {
		version = meta
	}
	if msg.method == MethodCancelled && Modern(version) {
		return false, nil // the end of the POST said it
	}
	if msg.method == methodInitialize {
		session, version = "", ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(raw))
	if err != nil {
		return false, fmt.Errorf("post message: %w", err)
	}
	c.setHeaders(req, session, version)
	req.Header.Set("Content-Type", ContentJSON)
	req.Header.Set("Accept", acceptAnswers)
	if Modern(version) && msg.method != "" {
		req.Header.Set(HeaderMethod, msg.method)
		if name, ok := TargetName(msg.method, msg.params); ok {
			req.Header.Set(HeaderName, EncodeHeader(name))
		}
		if c.opts.Mirror != nil {
			c.opts.Mirror(req.Header, msg.method, msg.params)
		}
	}
	resp, err := c.opts.Client.Do(req)
	if err != nil {
		return false, fmt.Errorf("post message: %w", err)
	}
	if msg.method == methodInitialize && resp.StatusCode == http.StatusOK {
		c.mu.Lock()
		c.session, c.version = resp.Header.Get(HeaderSessionID), ""
		c.mu.Unlock()
	}
	content, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && content == ContentSSE {
		return c.readStream(ctx, f, resp, msg, deliver)
	}
	return false, c.answer(resp, content, msg, session, deliver)
}

// learn takes the version from the answer to a handshake.
func (c *HTTPClient) learn(body []byte, msg outgoing) {
	result, ok := jsonx.Lookup(body, "result")
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch msg.method {
	case methodInitialize:
		c.version, _ = MemberString(result, "protocolVersion")
	case MethodDiscover:
		c.version, c.session = MetaOf(msg.params).ProtocolVersion, ""
	}
}

func (c *HTTPClient) state() (session, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.version
}

func (c *HTTPClient) markReady() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

func (c *HTTPClient) setHeaders(req *http.Request, session, version string) {
	for name, values := range c.opts.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if session != "" {
		req.Header.Set(HeaderSessionID, session)
	}
	if version != "" {
		req.Header.Set(HeaderProtocolVersion, version)
	}
}

// Close ends the session with DELETE, within CloseWait, and everything under way.
func (c *HTTPClient) Close() error {
	var err error
	c.once.Do(func() {
		c.mu.Lock()
		c.closing = true
		for f := range c.flights {
			f.cancel()
		}
		c.mu.Unlock()
		close(c.closed)
		c.done.Wait()
		if session, version := c.state(); session != "" {
			err = c.deleteSession(session, version)
		}
		if c.own {
			c.opts.Client.CloseIdleConnections()
		}
	})
	return err
}

func (c *HTTPClient) deleteSession(session, version string) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.CloseWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.url, nil)
	if err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	c.setHeaders(req, session, version)
	resp, err := c.opts.Client.Do(req)
	if err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode/100 == 2, resp.StatusCode == http.StatusMethodNotAllowed, resp.StatusCode == http.StatusNotFound:
		return nil
	}
	return fmt.Errorf("end session: %w", statusError(resp))
}

var errStreamClosed = errors.New("stream closed")
