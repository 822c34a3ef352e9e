package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// post is one POST of a client on its way to an HTTP backend, or a GET stream: then it has no
// requests of its own.
type post struct {
	*visit
	relay *relay
	own   []*exchange // the requests of this POST that were forwarded
	array bool        // the body was a batch
	early [][]byte    // answers that the gateway gave itself to requests of a batch
}

// request carries a single request.
func (p *post) request(ctx context.Context, msg wire.Message) {
	if p.relay.crossOver(ctx, p.visit, &msg) {
		return
	}
	x, a := p.lane.begin(ctx, p.arrival(msg))
	if x == nil {
		p.write(a)
		return
	}
	p.version = x.version
	x.traceHeader(p.r.Header)
	upCtx, cancelUp := context.WithCancel(ctx)
	defer cancelUp()
	defer p.onGone(ctx, x, cancelUp)()
	forward, a, ok := x.admit(ctx)
	if !ok {
		p.write(a)
		return
	}
	p.own = []*exchange{x}
	if len(forward.Raw) > 0 && &forward.Raw[0] != &msg.Raw[0] {
		p.lane.rewriteHeaders(p.r.Header, &msg, &forward)
	}
	resp, err := p.relay.send(upCtx, p.r, bytes.NewReader(forward.Raw))
	if err != nil {
		a := x.fail(ctx, causeBackendLost, err.Error())
		if a.status == 0 {
			a.status = http.StatusBadGateway
		}
		p.write(a)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if p.relay.isOutdated(ctx, &msg, resp) {
		x.fail(ctx, causeHTTPStatus, "HTTP status "+strconv.Itoa(resp.StatusCode)+", taken up by HTTP+SSE of 2024-11-05")
		p.relay.hub.initialize(ctx, p.visit, msg)
		return
	}
	if g, other := p.relay.otherGeneration(ctx, p.visit, &msg, resp); other {
		x.fail(ctx, causeHTTPStatus, takenUp(resp.StatusCode, g))
		p.relay.takeOver(ctx, p.visit, g, msg)
		return
	}
	p.answer(ctx, resp)
}

// answer takes the upstream answer to the forwarded requests.
func (p *post) answer(ctx context.Context, resp *http.Response) {
	if id := resp.Header.Get(wire.HeaderSessionID); id != "" && id != p.session.id {
		p.session = p.lane.session(id)
		for _, x := range p.own {
			x.adopt(p.session)
		}
	}
	kind := contentType(resp.Header)
	if resp.StatusCode == http.StatusOK && kind == wire.ContentSSE {
		p.relayStream(ctx, resp)
		return
	}
	limit := p.lane.opts.MaxMessage
	body, err := readAll(http.MaxBytesReader(nil, resp.Body, limit), resp.ContentLength, limit)
	if err != nil {
		cause := causeBackendLost
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong || resp.ContentLength > limit {
			cause = causeTooLarge
		}
		p.failAll(ctx, cause, err.Error(), http.StatusBadGateway)
		return
	}
	if kind == wire.ContentJSON && p.answerJSON(ctx, resp, body) {
		return
	}
	if resp.StatusCode/100 == 2 && len(body) > 0 {
		p.spoilAll(ctx, body, "HTTP status "+strconv.Itoa(resp.StatusCode)+" with a body that is no JSON-RPC answer")
		return
	}
	p.refusedByServer(ctx, resp, body)
}

// refusedByServer hands an HTTP answer on that is no JSON-RPC: an authorization challenge, a lost
// session, a proxy's error page.
func (p *post) refusedByServer(ctx context.Context, resp *http.Response, body []byte) {
	for _, x := range p.own {
		a := x.fail(ctx, causeHTTPStatus, "HTTP status "+strconv.Itoa(resp.StatusCode))
		if a.status == http.StatusServiceUnavailable {
			p.write(a) // not recorded
			return
		}
	}
	if resp.StatusCode == http.StatusNotFound {
		p.lane.endSession(ctx, p.session.id)
	}
	p.respond(resp, resp.StatusCode, body)
}

// respond writes an upstream answer with another body.
func (p *post) respond(resp *http.Response, status int, body []byte) {
	p.relay.headersBack(p.visit, resp.Header)
	p.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	p.w.WriteHeader(status)
	if len(body) > 0 {
		p.send(body)
	}
}

// answerJSON takes a JSON body. It returns false when that is no JSON-RPC and nothing was written.
func (p *post) answerJSON(ctx context.Context, resp *http.Response, body []byte) bool {
	msg, err := wire.Parse(body, p.lane.limits(true))
	if list, isBatch := errors.AsType[*wire.BatchError](err); isBatch && p.array {
		p.answerBatch(ctx, resp, body, list.Entries)
		return true
	}
	if err != nil || len(p.own) != 1 || p.array || (msg.Kind != wire.KindResponse && msg.Kind != wire.KindError) {
		return false
	}
	x := p.own[0]
	anonymous := msg.Kind == wire.KindError && (msg.ID == nil || string(msg.ID) == "null")
	if !anonymous && wire.IDKey(msg.ID) != wire.IDKey(x.msg.ID) {
		return false
	}
	a := x.settle(ctx, msg)
	if a.raw == nil { // cancelled meanwhile
		p.w.WriteHeader(http.StatusAccepted)
		return true
	}
	status := resp.StatusCode
	if a.status != 0 || (a.code != 0 && a.changed) {
		status = a.httpStatus(p.version)
	}
	if a.retry {
		p.w.Header().Set("Retry-After", "1")
	}
	p.respond(resp, status, a.raw)
	return true
}

// failAll ends what was forwarded without an answer.
func (p *post) failAll(ctx context.Context, cause, text string, status int) {
	p.writeAll(status, func(x *exchange) answer { return x.fail(ctx, cause, text) })
}

// spoilAll ends what was forwarded with an answer that cannot be understood.
func (p *post) spoilAll(ctx context.Context, body []byte, reason string) {
	p.writeAll(http.StatusOK, func(x *exchange) answer { return x.malformed(ctx, body, reason) })
}

func (p *post) writeAll(status int, end func(*exchange) answer) {
	answers := p.early
	last := answer{}
	for _, x := range p.own {
		if a := end(x); a.raw != nil {
			answers = append(answers, a.raw)
			last = a
		}
	}
	if last.raw == nil && len(answers) == 0 {
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	if p.array {
		last.raw = joinBatch(answers)
	}
	if last.status == 0 {
		last.status = status
	}
	p.write(last)
}

// passOn forwards what is no request and hands the answer back as it is.
func (p *post) passOn(ctx context.Context, raw []byte) {
	resp, err := p.relay.send(ctx, p.r, bytes.NewReader(raw))
	if err != nil {
		p.lane.log.WarnContext(ctx, "message not forwarded", slog.Any("error", err))
		http.Error(p.w, "no connection to the server", http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK && contentType(resp.Header) == wire.ContentSSE {
		p.relayStream(ctx, resp)
		return
	}
	p.relay.copyBack(p.visit, resp)
}

// notify reports whether a notification of the client is to be forwarded. A cancel ends its
// exchange, and goes on only if the request did.
func (p *post) notify(ctx context.Context, msg *wire.Message) bool {
	if msg.Method != methodCancelled {
		return true
	}
	return p.session.cancel(ctx, msg, false)
}

// cancel ends the exchange that a notifications/cancelled names, in the direction of its sender. It
// reports whether the other side has the request.
func (s *session) cancel(ctx context.Context, msg *wire.Message, reverse bool) bool {
	id, ok := wire.Member(msg.Params, "requestId")
	if !ok {
		return false
	}
	x := s.find(id, reverse)
	if x == nil {
		return s.id == "" && !reverse // without a session the table is not the whole truth
	}
	wasForwarded, a := x.interrupt(ctx, errCancelled)
	x.answer(a)
	return wasForwarded
}

// replied takes the client's answer to a request of the server, and returns what to forward.
func (p *post) replied(ctx context.Context, msg wire.Message) []byte {
	var x *exchange
	if msg.ID != nil {
		x = p.asker().find(msg.ID, true)
	}
	if x == nil {
		p.lane.answerStray(ctx, p.arrival(msg))
		return nil
	}
	return x.settle(ctx, msg).raw
}

// asker holds the server's open requests to this client: an answer comes by another POST, so that
// without a session id all clients share one table.
func (p *post) asker() *session {
	if p.session.id == "" {
		return p.lane.unnamed
	}
	return p.session
}

// joinBatch makes a batch of messages.
func joinBatch(entries [][]byte) jsonx.Value {
	size := 2
	for _, e := range entries {
		size += len(e) + 1
	}
	out := append(make([]byte, 0, size), '[')
	out = append(out, bytes.Join(entries, []byte(","))...)
	return append(out, ']')
}
