package gateway

import (
	"encoding/hex"
	"net/http"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const amendTrace = "chaintrail/trace"

// Trace says what becomes of a request that belongs to no trace (W3C Trace Context). One that does keeps it everywhere.
type Trace string

// What becomes of it.
const (
	TraceHeader  Trace = "header"  // a trace is made, and goes on in the header of a relayed HTTP request; the default
	TraceForward Trace = "forward" // it also goes on in params._meta, where there is no such header: to stdio servers first of all
	TraceOff     Trace = "off"     // none is made
)

// trace finds the trace that the request belongs to, or makes one. A made one has the id of the call, which it is found by
// in the record; its flag says that there is a record.
func (x *exchange) trace() (traceID, spanID string) {
	for _, parent := range [2]string{x.facts.meta.Traceparent, x.traceparent} {
		if traceID, spanID = wire.Trace(parent); traceID != "" {
			x.traceparent = parent
			return traceID, spanID
		}
	}
	x.traceparent = ""
	if x.rules.Trace == TraceOff || x.msg.Kind != wire.KindRequest {
		return "", ""
	}
	b := make([]byte, 0, 55)
	b = hex.AppendEncode(append(b, "00-"...), x.call[:])
	b = hex.AppendEncode(append(b, '-'), x.id[8:])
	x.traceparent, x.traceMade = string(append(b, "-01"...)), true
	return x.traceparent[3:35], x.traceparent[36:52]
}

// traceHeader puts a made trace in the header that goes on.
func (x *exchange) traceHeader(h http.Header) {
	if x.traceMade && !x.reverse {
		h.Set("Traceparent", x.traceparent)
		h.Del("Tracestate") // of a trace that was none
	}
}

// traceMeta puts a made trace in the params that go on, where they go without headers and the rules say so.
func (x *exchange) traceMeta(rec *schemas.Record, params jsonx.Value, res *chain.Result) {
	if !x.traceMade || x.reverse || !x.headless || x.rules.Trace != TraceForward {
		return
	}
	before := current(res, params)
	meta := wire.WithMember(memberOrEmpty(before, "_meta"), wire.MetaTraceparent, appendQuoted(nil, x.traceparent))
	noteAmend(rec, res, amendTrace, wire.WithMember(before, "_meta", meta))
}
