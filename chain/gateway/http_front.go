package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// visit is one HTTP request of a client, as both HTTP fronts see it.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	lane    *lane
	session *session
	caller  Caller
	version string // header, else what the session negotiated
}

// newVisit identifies the caller. It answers and returns false when it may not go on.
func (l *lane) newVisit(w http.ResponseWriter, r *http.Request) (*visit, bool) {
	v := &visit{w: w, r: r, lane: l, version: r.Header.Get(wire.HeaderProtocolVersion)}
	v.session = l.session(r.Header.Get(wire.HeaderSessionID))
	if v.version == "" {
		v.version, _ = v.session.negotiated()
	}
	if l.opts.Identify == nil {
		return v, true
	}
	caller, err := l.opts.Identify(r)
	if err == nil {
		v.caller = caller
		return v, true
	}
	in := v.arrival(wire.Message{Kind: wire.KindInvalid})
	in.msg.ID = nil
	x := l.newExchange(in)
	a := x.refuse(r.Context(), verdict{
		outcome: schemas.OutcomeDenied, cause: causeUnauthorized, text: err.Error(),
		rpc: &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Unauthorized"},
	})
	if a.status == 0 {
		a.status = http.StatusUnauthorized
	}
	v.write(a)
	return nil, false
}

func (v *visit) arrival(msg wire.Message) arrival {
	return arrival{
		session: v.session, scope: v.session.id != "", msg: msg, caller: v.caller, transport: "http",
		header: v.r.Header, address: v.r.RemoteAddr, userAgent: v.r.UserAgent(),
		traceparent: v.r.Header.Get("Traceparent"), version: v.version,
	}
}

// read takes the body and splits it. When that is not possible it answers, with an event, and ok is
// false. A batch comes back as entries.
func (v *visit) read(ctx context.Context) (msg wire.Message, batch *wire.BatchError, ok bool) {
	limit := v.lane.opts.MaxMessage
	raw, err := readAll(http.MaxBytesReader(v.w, v.r.Body, limit), v.r.ContentLength, limit)
	if err != nil {
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			err = fmt.Errorf("%w: the limit is %d bytes", wire.ErrTooLarge, limit)
		} else {
			err = &wire.ParseError{Code: wire.CodeParseError, Reason: "request body ended early", Offset: int64(len(raw)), Err: err}
		}
		v.write(v.lane.refuseRaw(ctx, v.arrival(wire.Message{Raw: raw}), err))
		return msg, nil, false
	}
	msg, err = wire.Parse(raw, v.lane.limits(false))
	if err == nil {
		return msg, nil, true
	}
	if list, isBatch := errors.AsType[*wire.BatchError](err); isBatch && batches(v.version) {
		return msg, list, true
	}
	v.write(v.lane.refuseRaw(ctx, v.arrival(msg), err))
	return msg, nil, false
}

// readAll reads a body into one slice of the right size, which the recorder may keep.
func readAll(body io.Reader, length, limit int64) ([]byte, error) {
	if length < 0 || length > limit {
		return io.ReadAll(body)
	}
	raw := make([]byte, length)
	n, err := io.ReadFull(body, raw)
	if err != nil && !errors.Is(err, io.EOF) {
		return raw[:n], err
	}
	return raw[:n], nil
}

// write answers with one JSON message, or with 202 when there is none.
func (v *visit) write(a answer) {
	h := v.w.Header()
	if a.raw == nil {
		v.w.WriteHeader(http.StatusAccepted)
		return
	}
	h.Set("Content-Type", wire.ContentJSON)
	h.Set("Content-Length", strconv.Itoa(len(a.raw)))
	if a.retry {
		h.Set("Retry-After", "1")
	}
	v.w.WriteHeader(a.httpStatus(v.version))
	v.send(a.raw)
}

// send writes a body. That the client is gone is no error of ours: the outcome is recorded.
func (v *visit) send(body []byte) {
	if _, err := v.w.Write(body); err != nil {
		v.lane.log.Debug("answer not delivered", slog.Any("error", err))
	}
}

// onGone interrupts an exchange when the client closes the response stream, which from 2026-07-28
// on is how it cancels. The returned function MUST be called before the handler returns.
func (v *visit) onGone(ctx context.Context, x *exchange, also func()) (stop func()) {
	if !stateless(x.version) {
		return func() {}
	}
	done := make(chan struct{})
	detach := context.AfterFunc(v.r.Context(), func() { //nolint:contextcheck // ctx outlives the client on purpose
		defer close(done)
		x.interrupt(ctx, errClientGone)
		also()
	})
	return func() {
		if !detach() {
			<-done
		}
	}
}

// accepts reports whether the Accept header has a media type.
func accepts(r *http.Request, media string) bool {
	for _, line := range r.Header["Accept"] {
		for one := range strings.SplitSeq(line, ",") {
			one, _, _ = strings.Cut(one, ";")
			if one = strings.ToLower(strings.TrimSpace(one)); one == media || one == "*/*" {
				return true
			}
		}
	}
	return false
}
