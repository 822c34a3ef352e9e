package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// relay carries HTTP to HTTP: one upstream request for each of the client's. It keeps no sessions
// but the table of open exchanges.
type relay struct {
	lane   *lane
	life   *life
	hub    *hub // serves where the backend proves to speak the transport of 2024-11-05
	url    *url.URL
	client http.RoundTripper

	metadata atomic.Pointer[url.URL] // where the backend said its authorization metadata is; nil: it did not
}

func newRelay(l *lane, lf *life, h *hub) (*relay, error) {
	u, err := url.Parse(l.backend.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &relay{lane: l, life: lf, hub: h, url: u, client: l.opts.Transport}, nil
}

// ServeHTTP implements http.Handler.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.lane.outdated.Load() || r.hub.holds(req.Header.Get(wire.HeaderSessionID)) {
		r.hub.ServeHTTP(w, req)
		return
	}
	v, ok := r.lane.newVisit(w, req)
	if !ok {
		return
	}
	switch req.Method {
	case http.MethodPost:
		r.post(req.Context(), v)
	case http.MethodGet:
		r.stream(req.Context(), v)
	default:
		r.pass(req.Context(), v)
	}
}

// isOutdated finds out, from the refusal of an initialize, whether the backend speaks the transport of
// 2024-11-05 (specification, "Transports", Backwards Compatibility).
func (r *relay) isOutdated(ctx context.Context, msg *wire.Message, resp *http.Response) bool {
	if msg.Method != methodInitialize || r.lane.backend.Transport != "" || !wire.OutdatedStatus(resp.StatusCode) || contentType(resp.Header) == wire.ContentJSON {
		return false
	}
	if !wire.HasSSE(ctx, r.lane.backend.URL, r.lane.httpOptions()) {
		return false
	}
	r.lane.log.InfoContext(ctx, "the server speaks HTTP+SSE of 2024-11-05")
	r.lane.outdated.Store(true)
	return true
}

func (r *relay) post(ctx context.Context, v *visit) {
	msg, batch, ok := v.read(ctx)
	if !ok {
		return
	}
	ctx, end := r.life.begin(ctx, true)
	if end == nil {
		v.write(r.lane.refuseStopping(ctx, v.arrival(msg)))
		return
	}
	defer end()
	p := &post{relay: r, visit: v}
	switch {
	case batch != nil:
		p.batch(ctx, msg.Raw, batch.Entries)
	case msg.Kind == wire.KindRequest:
		p.request(ctx, msg)
	case msg.Kind == wire.KindNotification:
		if p.notify(ctx, &msg) {
			p.passOn(ctx, msg.Raw)
			return
		}
		v.w.WriteHeader(http.StatusAccepted)
	default:
		if raw := p.replied(ctx, msg); raw != nil {
			p.passOn(ctx, raw)
			return
		}
		v.w.WriteHeader(http.StatusAccepted)
	}
}

// stream carries the GET stream of a session, which a client also uses to resume a broken one.
func (r *relay) stream(ctx context.Context, v *visit) {
	ctx, end := r.life.begin(ctx, false)
	if end == nil {
		http.Error(v.w, "gateway is stopping", http.StatusServiceUnavailable)
		return
	}
	defer end()
	resp, err := r.send(ctx, v.r, nil)
	if err != nil {
		http.Error(v.w, "no connection to the server", http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK && contentType(resp.Header) == wire.ContentSSE {
		p := &post{relay: r, visit: v}
		p.relayStream(ctx, resp)
		return
	}
	r.copyBack(v, resp)
}

// pass carries DELETE, and whatever else a method may be.
func (r *relay) pass(ctx context.Context, v *visit) {
	ctx, end := r.life.begin(ctx, false)
	if end == nil {
		http.Error(v.w, "gateway is stopping", http.StatusServiceUnavailable)
		return
	}
	defer end()
	resp, err := r.send(ctx, v.r, http.MaxBytesReader(v.w, v.r.Body, r.lane.opts.MaxMessage))
	if err != nil {
		http.Error(v.w, "no connection to the server", http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if v.r.Method == http.MethodDelete && (resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotFound) {
		r.lane.endSession(ctx, v.session.id)
	}
	r.copyBack(v, resp)
}

// endSession forgets a session and ends what is open in it.
func (l *lane) endSession(ctx context.Context, id string) {
	if id == "" {
		return
	}
	if s := l.sessions.remove(id); s != nil {
		for _, x := range s.all() {
			x.interrupt(context.WithoutCancel(ctx), errSessionEnded)
		}
	}
}

// send makes the upstream request for a client's, with a body of its own.
func (r *relay) send(ctx context.Context, from *http.Request, body io.Reader) (*http.Response, error) {
	return r.sendTo(ctx, from, *r.url, body)
}

func (r *relay) sendTo(ctx context.Context, from *http.Request, u url.URL, body io.Reader) (*http.Response, error) {
	if u.RawQuery == "" {
		u.RawQuery = from.URL.RawQuery
	}
	req, err := http.NewRequestWithContext(ctx, from.Method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	copyHeaders(req.Header, from.Header)
	if _, named := req.Header["User-Agent"]; !named {
		req.Header["User-Agent"] = nil // not ours to name one
	}
	for name, value := range r.lane.backend.Headers {
		req.Header.Set(name, value)
	}
	resp, err := r.client.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	return resp, nil
}

// copyBack hands an upstream answer that carries no message of an exchange to the client as it is.
func (r *relay) copyBack(v *visit, resp *http.Response) {
	r.headersBack(v, resp.Header)
	if resp.ContentLength >= 0 {
		v.w.Header()["Content-Length"] = resp.Header["Content-Length"]
	}
	v.w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(v.w, resp.Body) // either side may be gone: nothing is left to tell it
}

// answerBack answers the server's own request to the client with an error of ours: a POST as the
// client would have made it.
func (r *relay) answerBack(ctx context.Context, from *http.Request, raw []byte) error {
	like := from.Clone(ctx)
	like.Method = http.MethodPost
	like.Header.Del(wire.HeaderLastEventID)
	like.Header.Del(wire.HeaderMethod)
	like.Header.Del(wire.HeaderName)
	like.Header.Set("Content-Type", wire.ContentJSON)
	like.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	resp, err := r.send(ctx, like, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return resp.Body.Close()
}
