package chain

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Answer is what came of one invocation.
type Answer struct {
	State    schemas.InvocationState // finished, failed, timeout or malformed
	Duration time.Duration

	Valid    *bool            // validation; nil when it did not say
	Severity schemas.Severity // of a verdict that does not pass, after what is missing or unknown became error
	Blocks   bool             // validation: the verdict alone blocks, whatever failOpen says
	Errors   int              // findings by severity
	Warnings int
	Infos    int

	Modified *bool       // mutation
	Payload  jsonx.Value // mutation with Modified true: the new payload, bare

	Recorded *bool // sink

	ErrorCode int    // JSON-RPC error code of a failed invocation
	Error     string // what went wrong; may hold text from outside

	// What it said, raw.
	Messages, Suggestions, Info, Metrics jsonx.Value
}

// Finished reports whether the answer was a well-formed result.
func (a *Answer) Finished() bool { return a.State == schemas.StateFinished }

// Fill puts the answer into the sealed word on the invocation.
func (a *Answer) Fill(inv *schemas.Invocation) {
	inv.State, inv.SkipReason = a.State, ""
	inv.Valid, inv.Severity, inv.Modified, inv.Recorded = a.Valid, a.Severity, a.Modified, a.Recorded
	inv.Errors, inv.Warnings, inv.Infos = a.Errors, a.Warnings, a.Infos
	inv.ErrorCode, inv.DurationUS = a.ErrorCode, a.Duration.Microseconds()
}

// Detail returns what it said, for the open item beside the event; ok is false when it said nothing.
func (a *Answer) Detail(inv *schemas.Invocation) (detail schemas.InvocationDetail, ok bool) {
	if a.Error == "" && a.Messages == nil && a.Suggestions == nil && a.Info == nil && a.Metrics == nil {
		return detail, false
	}
	return schemas.InvocationDetail{
		Order: inv.Order, Interceptor: inv.Interceptor, Error: a.Error,
		Messages: a.Messages, Suggestions: a.Suggestions, Info: a.Info, Metrics: a.Metrics,
	}, true
}

// DeferredDetail is Detail for work that nothing waits for: with what a mutator would have made.
func (a *Answer) DeferredDetail(inv *schemas.Invocation) (detail schemas.InvocationDetail, ok bool) {
	detail, ok = a.Detail(inv)
	if a.Payload != nil && a.Finished() {
		detail.Order, detail.Interceptor, detail.Payload, ok = inv.Order, inv.Interceptor, a.Payload, true
	}
	return detail, ok
}

func (a *Answer) malformed(format string, args ...any) {
	a.State = schemas.StateMalformed
	if a.Error == "" {
		a.Error = fmt.Sprintf("%v: "+format, append([]any{ErrResult}, args...)...)
	}
}

// resultFields are the members of a result that mean something here.
type resultFields struct {
	interceptor, kind, phase                       jsonx.Value
	valid, severity, messages, suggestions, info   jsonx.Value
	modified, payload, recorded, metrics           jsonx.Value
	validation, mutation                           jsonx.Value
	nestedValid, nestedModified, nestedSomePayload jsonx.Value
}

func (f *resultFields) set(m jsonx.Member) {
	switch string(m.Name) {
	case "interceptor":
		f.interceptor = m.Value
	case "type":
		f.kind = m.Value
	case "phase":
		f.phase = m.Value
	case "valid":
		f.valid = m.Value
	case "severity":
		f.severity = m.Value
	case "messages":
		f.messages = m.Value
	case "suggestions":
		f.suggestions = m.Value
	case "info":
		f.info = m.Value
	case "modified":
		f.modified = m.Value
	case "payload":
		f.payload = m.Value
	case "recorded":
		f.recorded = m.Value
	case "metrics":
		f.metrics = m.Value
	case "validation":
		f.validation = m.Value
	case "mutation":
		f.mutation = m.Value
	}
}

// setNested reads the form that puts a result's members under "validation" or "mutation".
func (f *resultFields) setNested(m jsonx.Member) {
	switch string(m.Name) {
	case "valid":
		f.nestedValid = m.Value
	case "modified":
		f.nestedModified = m.Value
	case "payload":
		f.nestedSomePayload = m.Value
	case "severity", "messages", "suggestions", "info":
		f.set(m)
	}
}

// read judges a result: flat or nested, with the echo of the call, by the interceptor's type.
func (i *Interceptor) read(m *message, raw jsonx.Value) Answer {
	a := Answer{State: schemas.StateFinished}
	if v, ok := i.caller.(verifier); !ok || !v.verified() {
		if a.verify(raw); a.State != schemas.StateFinished {
			return a
		}
	}
	if raw.Kind() != '{' {
		a.malformed("not an object")
		return a
	}
	var f resultFields
	for member := range jsonx.Members(raw) {
		f.set(member)
	}
	if fault := i.echo(&f, m.phase); fault != "" {
		a.malformed("%s of another call", fault)
		return a
	}
	switch i.entry.Type {
	case schemas.TypeValidation:
		a.readValidation(&f)
	case schemas.TypeMutation:
		a.readMutation(&f, m, i.entry.Envelope)
	case schemas.TypeSink:
		a.readSink(&f)
	}
	a.keep(&f)
	return a
}

// verifier is a [Caller] that may know that its results are strict JSON already, so that they are not checked twice.
type verifier interface{ verified() bool }

// verify refuses what may not be taken for a result: invalid JSON, a name twice in an object, raw invalid UTF-8.
func (a *Answer) verify(raw jsonx.Value) {
	traits, err := jsonx.Verify(raw, 0)
	switch {
	case err != nil:
		a.malformed("%v", err)
	case traits.Duplicates || traits.InvalidUTF8:
		a.malformed("a name appears twice, or bytes are not UTF-8")
	}
}

// echo returns the member that differs from the call.
func (i *Interceptor) echo(f *resultFields, phase schemas.Phase) string {
	differs := func(v jsonx.Value, want string) bool {
		if isNull(v) {
			return false
		}
		if len(v) == len(want)+2 && string(v[1:len(v)-1]) == want { // as it is nearly always written
			return v[0] != '"'
		}
		got, ok := jsonx.StringOf(v)
		return !ok || got != want
	}
	switch {
	case differs(f.interceptor, i.entry.OwnName()):
		return "interceptor"
	case differs(f.kind, string(i.entry.Type)) && (i.entry.Type != schemas.TypeSink || differs(f.kind, "observability")):
		return "type"
	case differs(f.phase, string(phase)):
		return "phase"
	}
	return ""
}

// keep takes over what was said.
func (a *Answer) keep(f *resultFields) {
	take := func(v jsonx.Value) jsonx.Value {
		if isNull(v) || string(v) == "[]" || string(v) == "{}" {
			return nil
		}
		if traits, err := jsonx.Verify(v, 0); err != nil || traits.LoneSurrogates { // they may not be encoded again
			v = v.Clone()
			if err := v.Compact(jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(false)); err != nil {
				return nil
			}
		}
		return v
	}
	a.Messages, a.Suggestions = take(f.messages), take(f.suggestions)
	a.Info, a.Metrics = take(f.info), take(f.metrics)
}

func (a *Answer) readSink(f *resultFields) {
	recorded, ok := boolOf(f.recorded)
	if !ok {
		a.malformed("recorded is neither true nor false")
		return
	}
	a.Recorded = new(recorded)
	if !isNull(f.metrics) && f.metrics.Kind() != '{' {
		a.malformed("metrics is not an object")
	}
}

// readMutation: modified decides; an unmodified payload has to be the one that was sent.
func (a *Answer) readMutation(f *resultFields, m *message, envelope bool) {
	flat := f.modified
	if f.mutation.Kind() == '{' {
		for member := range jsonx.Members(f.mutation) {
			f.setNested(member)
		}
		if flat == nil {
			flat = f.nestedModified
		} else if f.nestedModified != nil && !bytes.Equal(flat, f.nestedModified) {
			a.malformed("it says modified twice, and differently")
			return
		}
		if f.payload == nil {
			f.payload = f.nestedSomePayload
		}
	}
	modified, ok := boolOf(flat)
	if !ok {
		a.malformed("modified is neither true nor false")
		return
	}
	sent := m.payload
	if sent == nil {
		sent = jsonx.Value(emptyPayload)
	}
	payload, fault := unwrap(f.payload, sent, m, envelope)
	switch {
	case fault != "":
		a.malformed("%s", fault)
	case !modified && !isNull(payload) && !equal(payload, sent):
		a.malformed("modified is false, but the payload is another")
	case !modified:
		a.Modified = new(false)
	case isNull(payload):
		a.malformed("modified is true, but there is no payload")
	case payload.Kind() != sent.Kind():
		a.malformed("the payload is not the kind of value that was sent")
	default:
		a.Modified, a.Payload = new(true), payload
	}
}

// unwrap takes a mutated request out of {method, params}, whichever shape was sent.
func unwrap(payload, sent jsonx.Value, m *message, envelope bool) (bare jsonx.Value, fault string) {
	if m.phase != schemas.PhaseRequest || isNull(payload) {
		return payload, ""
	}
	method, params, ok := envelopeOf(payload)
	if !ok {
		return payload, ""
	}
	if !envelope {
		if _, _, alike := envelopeOf(sent); alike || method != m.event {
			return payload, "" // these are params that happen to look so
		}
		return params, ""
	}
	if method != m.event {
		return nil, "the payload has another method"
	}
	return params, ""
}

// envelopeOf recognizes an object with a method, params that are an object, and nothing but members of JSON-RPC.
func envelopeOf(v jsonx.Value) (method string, params jsonx.Value, ok bool) {
	if v.Kind() != '{' {
		return "", nil, false
	}
	named := false
	for m := range jsonx.Members(v) {
		switch string(m.Name) {
		case "method":
			method, named = jsonx.StringOf(m.Value)
		case "params":
			params = m.Value
		case "jsonrpc", "id":
		default:
			return "", nil, false
		}
	}
	return method, params, named && params.Kind() == '{'
}

// equal compares two payloads as JSON: RFC 8785 form, so that spelling and the digits that a server's numbers cannot
// hold make no difference.
func equal(a, b jsonx.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := jsonx.Canonical(a)
	y, errY := jsonx.Canonical(b)
	if errX == nil && errY == nil {
		return bytes.Equal(x, y)
	}
	if (errX == nil) != (errY == nil) {
		return false
	}
	x, y = a.Clone(), b.Clone() // lone surrogates have no canonical form
	option := jsontext.AllowInvalidUTF8(true)
	return x.Compact(option) == nil && y.Compact(option) == nil && bytes.Equal(x, y)
}
