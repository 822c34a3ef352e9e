package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Conn carries messages to and from one peer: [LineConn], [Child], [HTTPClient].
type Conn interface {
	// Send writes one message. A connection whose answers come back on the way of the request hands
	// them to deliver before it returns. Concurrent.
	Send(ctx context.Context, raw []byte, deliver func(raw []byte)) error
	// Receive hands every other message to deliver until the connection ends; lines that had to be
	// skipped go to skipped. It is called once.
	Receive(ctx context.Context, deliver func(raw []byte), skipped func(error)) error
	// Close ends both sides, and a Receive under way.
	Close() error
}

// Bounds of a client.
const (
	DefaultMaxInFlight = 4096
	controlQueue       = 64 // cancellations and answers that wait to be written
)

// ErrTooManyCalls is returned when MaxInFlight calls wait for their answers; try later.
var ErrTooManyCalls = errors.New("too many calls in flight")

// ClientOptions configure a [Client]; nil is allowed.
type ClientOptions struct {
	Name, Version string      // who we are; empty means chaintrail, dev
	Capabilities  jsonx.Value // client capabilities object; nil means {}
	Probe         []string    // generations to try, by their protocol version; nil means initialize, then discover
	Limits        Limits      // of messages that come in
	MaxInFlight   int         // 0 means DefaultMaxInFlight
	// Notification takes the server's notifications, in order on a line connection; over HTTP each
	// stream has its own order, and calls may overlap. It must not block nor call back into the
	// client. nil drops them.
	Notification func(method string, params jsonx.Value)
	// Refusal answers the server's requests, ping excepted; nil: that this client takes none.
	Refusal *RPCError
	Logger  *slog.Logger // nil means slog.Default
}

// ClientStats count what a client met besides good answers.
type ClientStats struct {
	Calls     uint64 // calls sent
	Unknown   uint64 // answers to ids that nobody waits for: late, repeated or invented
	Malformed uint64 // messages that are not JSON-RPC, or too large
	Dropped   uint64 // cancellations and answers that found their queue full
}

// Client makes calls on one connection, many in flight at once. All methods are concurrent.
type Client struct {
	conn Conn
	opts ClientOptions

	control chan control
	done    chan struct{} // closed when Run has ended and all calls failed
	start   uint64        // first id; answers meant for an earlier client do not match

	mu      sync.Mutex // covers pending, lost, nextID
	pending map[uint64]chan answer
	lost    error // set when the connection ended
	nextID  uint64

	pull  puller        // nil when only Run can read
	role  chan struct{} // holds a token while someone reads; nil without pull
	over  chan struct{} // closed when a read met the end
	once  sync.Once     // closes over
	cause error         // of the end, nil if it was in order; read after over

	waiters sync.Pool // of chan answer
	server  atomic.Pointer[Server]

	calls, unknown, malformed, dropped atomic.Uint64
}

type answer struct {
	result jsonx.Value
	err    error
}

// NewClient makes calls on conn. Nothing is answered until Run runs.
func NewClient(conn Conn, opts *ClientOptions) *Client {
	c := &Client{
		conn: conn, control: make(chan control, controlQueue), done: make(chan struct{}),
		pending: map[uint64]chan answer{}, start: uint64(rand.Uint32()) << 8, //nolint:gosec // no secret
	}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Name == "" {
		c.opts.Name, c.opts.Version = "chaintrail", "dev"
	}
	if c.opts.Capabilities == nil {
		c.opts.Capabilities = jsonx.Value("{}")
	}
	if c.opts.MaxInFlight <= 0 {
		c.opts.MaxInFlight = DefaultMaxInFlight
	}
	if c.opts.Logger == nil {
		c.opts.Logger = slog.Default()
	}
	if c.opts.Refusal == nil {
		c.opts.Refusal = &RPCError{Code: CodeMethodNotFound, Message: "Method not found: this client takes no requests"}
	}
	c.nextID = c.start
	if c.pull = pullerOf(conn); c.pull != nil {
		c.role, c.over = make(chan struct{}, 1), make(chan struct{})
	}
	c.waiters.New = func() any { return make(chan answer, 1) }
	return c
}

// Run receives until the connection ends or ctx is done; then it closes the connection and fails
// all pending calls with [ErrDisconnected]. The orderly end is a nil error. It is called once.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { c.writeControl(ctx) }) // exits with ctx
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	err := c.receive(ctx)
	c.fail(err)
	stopped := ctx.Err() != nil
	cancel()
	if stop() {
		_ = c.conn.Close()
	}
	helpers.Wait()
	if stopped {
		err = nil
	}
	return err
}

func (c *Client) receive(ctx context.Context) error {
	if c.pull != nil {
		return c.rest()
	}
	return c.conn.Receive(ctx, c.dispatch, c.skipped)
}

// Done is closed when the connection is lost.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close closes the connection; Run then returns.
func (c *Client) Close() error { return c.conn.Close() }

// Stats returns the counters.
func (c *Client) Stats() ClientStats {
	return ClientStats{
		Calls: c.calls.Load(), Unknown: c.unknown.Load(),
		Malformed: c.malformed.Load(), Dropped: c.dropped.Load(),
	}
}

// Call sends a request and waits for its answer, which the caller owns. params MUST be grammatical,
// nil leaves them out. The error is an *[RPCError] for an error answer, wraps a *[ParseError] for an
// answer that is no JSON-RPC, is the cause of ctx when that ended first (the server is then told by
// notifications/cancelled), or wraps [ErrDisconnected], [ErrSessionLost], [ErrTooManyCalls].
func (c *Client) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	return c.call(ctx, method, c.withMeta(params))
}

func (c *Client) call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	id, wait, err := c.register()
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", method, err)
	}
	raw := make([]byte, 0, len(method)+len(params)+64)
	var idText [20]byte
	raw = AppendRequest(raw, strconv.AppendUint(idText[:0], id, 10), method, params)
	c.calls.Add(1)
	if err := c.conn.Send(ctx, raw, c.dispatch); err != nil {
		if c.forget(id) {
			c.waiters.Put(wait)
			if ctx.Err() != nil {
				c.cancel(ctx, id, method)
				err = context.Cause(ctx)
			}
			return nil, fmt.Errorf("call %s: %w", method, err)
		}
		// The answer came before the failure: it holds.
	}
	if a, ok := c.await(ctx, wait); ok {
		return c.finish(a, wait)
	}
	if !c.forget(id) { // the answer came at the same time
		return c.finish(<-wait, wait)
	}
	c.waiters.Put(wait)
	c.cancel(ctx, id, method)
	return nil, fmt.Errorf("call %s: %w", method, context.Cause(ctx))
}

// await waits for an answer, and reads for all if nobody else does; false means that ctx is done.
func (c *Client) await(ctx context.Context, wait <-chan answer) (answer, bool) {
	select { // without a look at the others, which costs more
	case c.role <- struct{}{}:
	default:
		select {
		case a := <-wait:
			return a, true
		case <-ctx.Done():
			return answer{}, false
		case c.role <- struct{}{}:
		}
	}
	if a, ok := c.lead(ctx, wait); ok {
		return a, true
	}
	select { // the connection has ended, and Run fails all calls
	case a := <-wait:
		return a, true
	case <-ctx.Done():
		return answer{}, false
	}
}

func (c *Client) finish(a answer, wait chan answer) (jsonx.Value, error) {
	c.waiters.Put(wait)
	return a.result, a.err
}

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method string, params jsonx.Value) error {
	if err := c.conn.Send(ctx, NewNotification(method, c.withMeta(params)), c.dispatch); err != nil {
		return fmt.Errorf("notify %s: %w", method, err)
	}
	return nil
}

func (c *Client) register() (uint64, chan answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.lost != nil:
		return 0, nil, c.lost
	case len(c.pending) >= c.opts.MaxInFlight:
		return 0, nil, fmt.Errorf("%w: %d", ErrTooManyCalls, c.opts.MaxInFlight)
	}
	c.nextID++
	wait := c.waiters.Get().(chan answer)
	c.pending[c.nextID] = wait
	return c.nextID, wait, nil
}

// forget gives up a call; false means that its answer is in the channel or about to be.
func (c *Client) forget(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.pending[id]
	delete(c.pending, id)
	return ok
}

func (c *Client) fail(cause error) {
	lost := ErrDisconnected
	if cause != nil {
		lost = fmt.Errorf("%w: %w", ErrDisconnected, cause)
	}
	c.mu.Lock()
	c.lost = lost
	pending := c.pending
	c.pending = map[uint64]chan answer{}
	c.mu.Unlock()
	for _, wait := range pending {
		wait <- answer{err: lost}
	}
	close(c.done)
}

// cancel tells the server, unless the specification forbids to cancel this method.
func (c *Client) cancel(ctx context.Context, id uint64, method string) {
	if method == methodInitialize {
		return
	}
	reason := "cancelled"
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		reason = "timeout"
	}
	params := fmt.Appendf(nil, `{"requestId":%d,"reason":%q}`, id, reason)
	c.enqueue(NewNotification(MethodCancelled, params))
}

// control is a message that waits to be written; without raw it only tells when its turn has come.
type control struct {
	raw  []byte
	turn chan<- struct{}
}

func (c *Client) enqueue(raw []byte) {
	select {
	case c.control <- control{raw: raw}:
	default:
		c.dropped.Add(1)
	}
}

func (c *Client) writeControl(ctx context.Context) {
	for {
		select {
		case m := <-c.control:
			if m.raw == nil {
				close(m.turn)
				continue
			}
			if err := c.conn.Send(ctx, m.raw, c.dispatch); err != nil && ctx.Err() == nil {
				c.opts.Logger.DebugContext(ctx, "control message not sent", slog.Any("error", err))
			}
		case <-ctx.Done():
			return
		}
	}
}

// Flush returns when the cancellations and answers that waited at the call have been written, when the
// connection has ended, or with the cause of ctx.
func (c *Client) Flush(ctx context.Context) error {
	turn := make(chan struct{})
	select {
	case c.control <- control{turn: turn}:
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-turn:
	case <-c.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (c *Client) skipped(err error) {
	c.malformed.Add(1)
	c.opts.Logger.Warn("message from server skipped", slog.Any("error", err))
}
