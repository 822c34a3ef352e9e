package schemas

import (
	"encoding/json/jsontext"
	"fmt"
	"strconv"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// AppendJSON appends the event's JSON form to dst: the same bytes that jsonx.Marshal makes, without
// reflection and without allocation, because it runs once for every event of the request path.
// It fails when a string is not valid UTF-8; dst then holds rubbish after its old length.
func (e *Event) AppendJSON(dst []byte) ([]byte, error) {
	dst, err := e.AppendJSONHead(dst)
	if err != nil {
		return dst, err
	}
	return e.AppendJSONBody(dst)
}

// AppendJSONHead appends the beginning of the JSON form, from Schema to Gateway: all that the
// journal fills in while it holds its lock. [Event.AppendJSONBody] appends the rest.
func (e *Event) AppendJSONHead(dst []byte) ([]byte, error) {
	w := encoder{b: append(dst, '{')}
	w.str("schema", e.Schema)
	w.id("id", e.ID)
	w.str("kind", string(e.Kind))
	w.id("writer", e.Writer)
	w.key("seq")
	w.b = strconv.AppendUint(w.b, e.Seq, 10)
	w.hash("prev_hash", e.PrevHash)
	w.time("time", e.Time)
	w.str("tenant", e.Tenant)
	w.optStr("gateway", e.Gateway)
	return w.done()
}

// AppendJSONBody appends what follows [Event.AppendJSONHead], with the comma before it and the closing
// brace. dst need not hold the head: the two may be made apart.
func (e *Event) AppendJSONBody(dst []byte) ([]byte, error) {
	w := encoder{b: dst}
	if c := e.Correlation; c != nil {
		w.open("correlation")
		w.correlation(c)
		w.close()
	}
	if a := e.Actor; a != nil {
		w.open("actor")
		w.str("type", a.Type)
		w.optStr("pseudonym", string(a.Pseudonym))
		w.optStr("verified_by", a.VerifiedBy)
		w.close()
	}
	if o := e.Operation; o != nil {
		w.open("operation")
		w.operation(o)
		w.close()
	}
	if d := e.Decision; d != nil {
		w.open("decision")
		w.decision(d)
		w.close()
	}
	if len(e.Invocations) > 0 {
		w.list("invocations")
		for i := range e.Invocations {
			w.element(i)
			w.invocation(&e.Invocations[i])
			w.close()
		}
		w.b = append(w.b, ']')
	}
	if len(e.Open) > 0 {
		w.list("open")
		for i := range e.Open {
			w.element(i)
			w.ref(&e.Open[i])
			w.close()
		}
		w.b = append(w.b, ']')
	}
	e.appendRare(&w)
	w.close()
	return w.done()
}

// appendRare leaves to reflection what a writer says a few times in its life.
func (e *Event) appendRare(w *encoder) {
	if e.Life != nil {
		w.any("life", e.Life)
	}
	if e.Plan != nil {
		w.any("plan", e.Plan)
	}
	if e.Gap != nil {
		w.any("gap", e.Gap)
	}
	if e.Admin != nil {
		w.any("admin", e.Admin)
	}
	if e.Checkpoint != nil {
		w.any("checkpoint", e.Checkpoint)
	}
}

// encoder appends members of JSON objects; the first error stays.
type encoder struct {
	b   []byte
	err error
}

func (w *encoder) done() ([]byte, error) {
	if w.err != nil {
		return w.b, fmt.Errorf("encode event: %w", w.err)
	}
	return w.b, nil
}

func (w *encoder) key(name string) {
	if n := len(w.b); n == 0 || w.b[n-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *encoder) open(name string) { w.key(name); w.b = append(w.b, '{') }
func (w *encoder) list(name string) { w.key(name); w.b = append(w.b, '[') }
func (w *encoder) close()           { w.b = append(w.b, '}') }

func (w *encoder) element(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '{')
}

func (w *encoder) quote(name, s string) {
	b, err := jsontext.AppendQuote(w.b, s)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("member %q: %w", name, err)
	}
	w.b = b
}

func (w *encoder) str(name, s string) { w.key(name); w.quote(name, s) }

func (w *encoder) optStr(name, s string) {
	if s != "" {
		w.str(name, s)
	}
}

func (w *encoder) int(name string, v int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *encoder) optInt(name string, v int64) {
	if v != 0 {
		w.int(name, v)
	}
}

func (w *encoder) optTrue(name string, v bool) {
	if v {
		w.key(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *encoder) optBool(name string, v *bool) {
	if v != nil {
		w.key(name)
		w.b = strconv.AppendBool(w.b, *v)
	}
}

func (w *encoder) id(name string, v uuid.UUID) {
	w.key(name)
	w.b = append(w.b, '"')
	w.b, _ = v.AppendText(w.b)
	w.b = append(w.b, '"')
}

func (w *encoder) optID(name string, v uuid.UUID) {
	if v != (uuid.UUID{}) {
		w.id(name, v)
	}
}

func (w *encoder) hash(name string, v seal.Hash) {
	w.key(name)
	w.b = append(w.b, '"')
	w.b, _ = v.AppendText(w.b)
	w.b = append(w.b, '"')
}

func (w *encoder) optHash(name string, v seal.Hash) {
	if !v.IsZero() {
		w.hash(name, v)
	}
}

func (w *encoder) time(name string, v Time) {
	w.key(name)
	w.b = append(w.b, '"')
	w.b, _ = v.AppendText(w.b)
	w.b = append(w.b, '"')
}

func (w *encoder) optTime(name string, v Time) {
	if v != 0 {
		w.time(name, v)
	}
}

func (w *encoder) any(name string, v any) {
	b, err := jsonx.Marshal(v)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("member %q: %w", name, err)
	}
	w.key(name)
	w.b = append(w.b, b...)
}

func (w *encoder) correlation(c *Correlation) {
	w.id("exchange_id", c.Exchange)
	w.optID("call_id", c.Call)
	w.optID("interception", c.Interception)
	w.optStr("session", string(c.Session))
	w.optStr("request_id", string(c.RequestID))
	w.optID("parent_id", c.Parent)
	w.optStr("state_in", string(c.StateIn))
	w.optStr("state_out", string(c.StateOut))
	w.optStr("trace_id", c.TraceID)
	w.optStr("span_id", c.SpanID)
	w.optStr("protocol_version", c.ProtocolVersion)
	w.optStr("transport", c.Transport)
	w.optStr("server_protocol_version", c.ServerVersion)
}

func (w *encoder) operation(o *Operation) {
	w.str("event", o.Event)
	w.str("phase", string(o.Phase))
	w.str("direction", string(o.Direction))
	w.optTrue("reverse", o.Reverse)
	w.str("server", o.Server)
	w.optStr("target", o.Target)
	w.optStr("target_ref", string(o.TargetRef))
}

func (w *encoder) decision(d *Decision) {
	w.str("status", string(d.Status))
	w.optStr("outcome", string(d.Outcome))
	w.optStr("aborted_at", d.AbortedAt)
	w.optStr("abort_type", d.AbortType)
	w.optStr("abort_phase", string(d.AbortPhase))
	w.optInt("errors", int64(d.Errors))
	w.optInt("warnings", int64(d.Warnings))
	w.optInt("infos", int64(d.Infos))
	w.optTrue("modified", d.Modified)
	w.optHash("plan_digest", d.PlanDigest)
	w.int("chain_us", d.ChainUS)
	w.optInt("backend_us", d.BackendUS)
	w.optInt("total_us", d.TotalUS)
	w.optTime("started_at", d.StartedAt)
	w.optTrue("is_error", d.IsError)
	w.optInt("error_code", int64(d.ErrorCode))
	w.optStr("cause", d.Cause)
}

func (w *encoder) invocation(v *Invocation) {
	w.str("id", v.ID)
	w.str("interceptor", v.Interceptor)
	w.optStr("version", v.Version)
	w.str("host", v.Host)
	w.str("type", string(v.Type))
	w.str("mode", string(v.Mode))
	w.optStr("mode_reason", v.ModeReason)
	w.optTrue("fail_open", v.FailOpen)
	w.optInt("priority", int64(v.Priority))
	w.int("order", int64(v.Order))
	w.str("state", string(v.State))
	w.optStr("skip_reason", string(v.SkipReason))
	w.optBool("valid", v.Valid)
	w.optStr("severity", string(v.Severity))
	w.optBool("modified", v.Modified)
	w.optBool("recorded", v.Recorded)
	w.optStr("input", v.Input)
	w.optStr("output", v.Output)
	w.optInt("errors", int64(v.Errors))
	w.optInt("warnings", int64(v.Warnings))
	w.optInt("infos", int64(v.Infos))
	w.optInt("error_code", int64(v.ErrorCode))
	w.optInt("attempt", int64(v.Attempt))
	w.optInt("duration_us", v.DurationUS)
}

func (w *encoder) ref(r *OpenRef) {
	w.str("role", string(r.Role))
	w.optInt("index", int64(r.Index))
	w.int("bytes", int64(r.Bytes))
	w.hash("commitment", r.Commitment)
	w.str("keep", string(r.Keep))
	w.optInt("kept_bytes", int64(r.KeptBytes))
	w.optHash("kept", r.Kept)
	if len(r.Flags) > 0 {
		w.list("flags")
		for i, f := range r.Flags {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.quote("flags", f)
		}
		w.b = append(w.b, ']')
	}
}
