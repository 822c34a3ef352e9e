package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// maxRefusal bounds the body of an answer that is looked at for a refusal.
const maxRefusal = 64 << 10

// crossOver answers a request by way of the other generation, where that is known to be needed. It returns
// false when it is not, and nothing was written.
func (r *relay) crossOver(ctx context.Context, v *visit, msg *wire.Message) bool {
	g, proven := speaks(msg, v.version)
	if !proven || !r.lane.spoken.crosses(g) || !r.lane.backend.mayCross(msg.Method) {
		return false
	}
	r.takeOver(ctx, v, g, *msg)
	return true
}

// takeOver has the hub serve a request: it makes the session that one of both sides does not know.
func (r *relay) takeOver(ctx context.Context, v *visit, g generation, msg wire.Message) {
	if g == legacyGeneration {
		r.hub.initialize(ctx, v, msg)
		return
	}
	r.hub.once(ctx, v, msg)
}

// otherGeneration finds out, from the refusal of a request, whether the backend serves only the other
// generation. The body of resp can be read as before.
func (r *relay) otherGeneration(ctx context.Context, v *visit, msg *wire.Message, resp *http.Response) (generation, bool) {
	g, proven := speaks(msg, v.version)
	if !proven || !r.lane.backend.mayCross(msg.Method) || (r.lane.spoken.is(g, served) && msg.Method != methodInitialize && resp.StatusCode == http.StatusOK) {
		return g, false
	}
	isRefusal, isResult := r.readRefusal(msg, resp)
	if isResult {
		r.lane.spoken.learn(g, served)
	}
	if !isRefusal {
		return g, false
	}
	r.lane.spoken.learn(g, 0)
	conn, stop, err := r.lane.dialServer(newForwarded(r.client, v.r.Header, r.lane.backend.Headers))
	if err != nil {
		return g, false
	}
	b := newBridge(r.lane, conn)
	_, err = b.greet(ctx, &attempt{msg: msg, speaks: g})
	b.end()
	stop(context.WithoutCancel(ctx))
	return g, err == nil
}

// readRefusal looks at an answer; it may be neither.
func (r *relay) readRefusal(msg *wire.Message, resp *http.Response) (isRefusal, isResult bool) {
	if resp.StatusCode/100 != 2 && !refusalStatus(resp.StatusCode) {
		return false, false
	}
	var head []byte
	switch kind := contentType(resp.Header); {
	case kind == wire.ContentSSE && msg.Method == methodInitialize:
		head = firstEvent(resp)
	case kind == wire.ContentJSON || resp.StatusCode/100 == 4:
		head = firstBytes(resp)
	default:
		return false, false
	}
	got, err := wire.Parse(head, r.lane.limits(true))
	if err == nil && (got.Kind == wire.KindError || got.Kind == wire.KindResponse) {
		no := refuses(msg, &got)
		if g, _ := speaks(msg, ""); r.lane.spoken.is(g, served) {
			// It may be another server by now, but then it says so.
			no = no && got.Kind == wire.KindError && saysVersion(msg.Method, got.RPCError().Code)
		}
		return no, !no && got.Kind == wire.KindResponse
	}
	return resp.StatusCode/100 == 4, false
}

// firstBytes reads a body that is short enough; nil when it is not.
func firstBytes(resp *http.Response) []byte {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal+1))
	resp.Body = &again{Reader: io.MultiReader(bytes.NewReader(head), resp.Body), Closer: resp.Body}
	if err != nil || len(head) > maxRefusal {
		return nil
	}
	return head
}

// firstEvent reads a stream up to its first message.
func firstEvent(resp *http.Response) []byte {
	var read bytes.Buffer
	events := wire.NewSSEReader(io.TeeReader(io.LimitReader(resp.Body, 2*maxRefusal), &read), maxRefusal)
	var data []byte
	for data == nil {
		ev, err := events.Next()
		if err != nil {
			break
		}
		if len(ev.Data) > 0 { // else it only names a place to resume from
			data = ev.Data
		}
	}
	resp.Body = &again{Reader: io.MultiReader(&read, resp.Body), Closer: resp.Body}
	return data
}

// again is a body of which a part was read.
type again struct {
	io.Reader
	io.Closer
}

// forwarded sends with each request what the client sent with its last: its credentials are for the
// server, and change during a session.
type forwarded struct {
	next   http.RoundTripper
	over   map[string]string // configured: goes first
	client atomic.Pointer[http.Header]
}

func newForwarded(next http.RoundTripper, client http.Header, over map[string]string) *forwarded {
	f := &forwarded{next: next, over: over}
	f.update(client)
	return f
}

// update takes the headers of another request of the client; it may be called on nil.
func (f *forwarded) update(client http.Header) {
	if f == nil {
		return
	}
	own := make(http.Header, len(client))
	copyHeaders(own, client)
	for name := range own {
		if ofMessage(name) {
			delete(own, name)
		}
	}
	f.client.Store(&own)
}

// ofMessage reports whether a header is about the one message, or the transport, that it came with.
func ofMessage(name string) bool {
	switch name {
	case "Accept", wire.HeaderLastEventID:
		return true
	}
	return strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Content-")
}

// RoundTrip implements http.RoundTripper.
func (f *forwarded) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	for name, values := range *f.client.Load() {
		if _, set := out.Header[name]; !set {
			out.Header[name] = values
		}
	}
	for name, value := range f.over {
		out.Header.Set(name, value)
	}
	return f.next.RoundTrip(out) //nolint:wrapcheck // it is the transport's own
}

// takenUp says in an outcome why the request was asked anew.
func takenUp(status int, g generation) string {
	return "HTTP status " + strconv.Itoa(status) + ", taken up in protocol " + g.other().version()
}
