package gateway

import (
	"bytes"
	"context"
	"net/http"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// maxBatch bounds the entries of a batch.
const maxBatch = 1_000

// batch carries a batch of protocol 2025-03-26 and older: each entry is intercepted by itself.
func (p *post) batch(ctx context.Context, raw []byte, entries []jsonx.Value) {
	p.array = true
	if len(entries) > maxBatch {
		p.write(p.lane.refuseRaw(ctx, p.arrival(wire.Message{Raw: raw}), wire.ErrTooLarge))
		return
	}
	var forward [][]byte
	changed := false
	for _, entry := range entries {
		out := p.batchEntry(ctx, entry)
		changed = changed || !bytes.Equal(out, entry)
		if out != nil {
			forward = append(forward, out)
		}
	}
	if len(forward) == 0 {
		p.writeAll(http.StatusOK, nil)
		return
	}
	if changed {
		raw = joinBatch(forward)
	}
	resp, err := p.relay.send(ctx, p.r, bytes.NewReader(raw))
	if err != nil {
		p.failAll(ctx, causeBackendLost, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	p.answer(ctx, resp)
}

// batchEntry returns what of an entry is to be forwarded, nil if nothing is.
func (p *post) batchEntry(ctx context.Context, entry jsonx.Value) []byte {
	msg, err := wire.Parse(entry, p.lane.limits(false))
	if err != nil {
		p.early = append(p.early, p.lane.refuseRaw(ctx, p.arrival(msg), err).raw)
		return nil
	}
	switch msg.Kind {
	case wire.KindNotification:
		if p.notify(ctx, &msg) {
			return msg.Raw
		}
		return nil
	case wire.KindRequest:
	default:
		return p.replied(ctx, msg)
	}
	x, a := p.lane.begin(ctx, p.arrival(msg))
	if x != nil {
		var out wire.Message
		var ok bool
		x.traceHeader(p.r.Header) // one for the batch: the next entries find it there
		if out, a, ok = x.admit(ctx); ok {
			p.own = append(p.own, x)
			return out.Raw
		}
	}
	if a.raw != nil {
		p.early = append(p.early, a.raw)
	}
	return nil
}

// answerBatch takes a batch of answers.
func (p *post) answerBatch(ctx context.Context, resp *http.Response, body []byte, entries []jsonx.Value) {
	out := p.early
	changed := len(out) > 0
	for _, entry := range entries {
		raw := p.batchAnswer(ctx, entry)
		changed = changed || !bytes.Equal(raw, entry)
		if raw != nil {
			out = append(out, raw)
		}
	}
	for _, x := range p.own { // those that the server left out
		if a := x.fail(ctx, causeNoAnswer, ""); a.raw != nil {
			out, changed = append(out, a.raw), true
		}
	}
	if changed {
		body = joinBatch(out)
	}
	p.respond(resp, resp.StatusCode, body)
}

func (p *post) batchAnswer(ctx context.Context, entry jsonx.Value) []byte {
	msg, err := wire.Parse(entry, p.lane.limits(true))
	if err != nil || (msg.Kind != wire.KindResponse && msg.Kind != wire.KindError) {
		if err == nil && msg.Kind == wire.KindNotification {
			return msg.Raw
		}
		return nil
	}
	x := p.waiting(msg.ID)
	if x == nil {
		p.lane.strayFromServer(ctx, p.arrival(msg), msg)
		return nil
	}
	return x.settle(ctx, msg).raw
}

// waiting finds the exchange that an answer of the server belongs to: of this POST, else of the
// session, for answers that come on another stream than their request.
func (p *post) waiting(id jsonx.Value) *exchange {
	if id == nil {
		return nil
	}
	key := wire.IDKey(id)
	for _, x := range p.own {
		if wire.IDKey(x.msg.ID) == key {
			return x
		}
	}
	return p.session.find(id, false)
}
