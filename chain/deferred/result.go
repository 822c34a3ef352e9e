package deferred

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// JSON-RPC codes with a meaning for deferred work (SEP-2624 errors).
const (
	codeMethodMissing = -32601
	codeParams        = -32602
	codeInternal      = -32603
	codeTimeout       = -32000
)

const maxErrorText = 4096 // bytes of an error text that are kept

// result is what became of one invocation.
type result struct {
	inv    schemas.Invocation
	detail schemas.InvocationDetail
}

// finalCode reports whether the same call would meet the same error again.
func finalCode(code int) bool { return code == codeMethodMissing || code == codeParams }

func (r *result) fail(err error) {
	r.inv.State = schemas.StateFailed
	r.detail.Error = errorText(err)
}

func (r *result) malformed(err error) {
	r.inv.State = schemas.StateMalformed
	r.detail.Error = errorText(err)
}

// failCall tells a timeout from another failure; ctx is that of the try.
func (r *result) failCall(ctx context.Context, err error) {
	r.fail(err)
	timeout := errors.Is(err, context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	if rpc, ok := errors.AsType[*wire.RPCError](err); ok {
		r.inv.ErrorCode = rpc.Code
		reason, _ := jsonx.Lookup(rpc.Data, "reason")
		text, _ := jsonx.StringOf(reason)
		timeout = timeout || rpc.Code == codeTimeout || rpc.Code == codeInternal && text == "timeout"
	}
	if timeout {
		r.inv.State = schemas.StateTimeout
	}
}

func errorText(err error) string {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) <= maxErrorText {
		return text
	}
	end := maxErrorText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// record is the final result as an event. It copies what joins it with the event it is about.
func (r *result) record(of *schemas.Event) *schemas.Record {
	e := schemas.Event{
		Kind: schemas.KindInvocation, Tenant: of.Tenant, Gateway: of.Gateway,
		Correlation: &schemas.Correlation{}, Actor: of.Actor, Operation: of.Operation,
		Invocations: []schemas.Invocation{r.inv},
	}
	if of.Correlation != nil {
		*e.Correlation = *of.Correlation
	}
	e.Correlation.Interception = of.ID
	rec := &schemas.Record{Event: e}
	if !r.says() {
		return rec
	}
	text, err := jsonx.Marshal(schemas.Detail{Invocations: []schemas.InvocationDetail{r.detail}})
	if err != nil { // legal JSON that cannot be written as a part of other JSON: a lone surrogate
		text, err = jsonx.Marshal(schemas.Detail{Invocations: []schemas.InvocationDetail{{
			Order: r.detail.Order, Interceptor: r.detail.Interceptor,
			Error: errorText(fmt.Errorf("what it said cannot be kept: %w", err)),
		}}})
	}
	if err == nil {
		rec.Add(schemas.RoleDetail, 0, text)
	}
	return rec
}

// says reports whether the interceptor, or an error, said anything beyond the verdict.
func (r *result) says() bool {
	d := &r.detail
	return d.Error != "" || d.Messages != nil || d.Suggestions != nil || d.Info != nil || d.Metrics != nil || d.Payload != nil
}

// read judges an answer in its flat or nested form; the error says why it is no result of this call.
// It applies the rules of the request path, where a result that breaks them counts as a failed
// invocation.
func (r *result) read(c *call, answer jsonx.Value) error {
	traits, err := jsonx.Verify(answer, 0)
	switch {
	case err != nil:
		return err
	case traits.Duplicates, traits.InvalidUTF8:
		return errors.New("a name appears twice, or text is not UTF-8")
	case !isObject(answer):
		return errors.New("the result is not an object")
	}
	if err := c.echoed(answer); err != nil {
		return err
	}
	body := answer
	for _, form := range []string{string(schemas.TypeValidation), string(schemas.TypeMutation), string(schemas.TypeSink)} {
		if nested, ok := jsonx.Lookup(answer, form); ok && isObject(nested) && form == string(c.entry.Type) {
			body = nested
		}
	}
	switch c.entry.Type {
	case schemas.TypeValidation:
		err = r.validation(body)
	case schemas.TypeMutation:
		err = r.mutation(c, answer, body)
	case schemas.TypeSink:
		r.inv.Recorded, err = flag(body, "recorded")
		r.detail.Metrics = object(body, "metrics")
	default:
		err = fmt.Errorf("unknown interceptor type %q", c.entry.Type)
	}
	if err != nil {
		return err
	}
	if r.detail.Info = object(body, "info"); r.detail.Info == nil {
		r.detail.Info = object(answer, "info")
	}
	r.inv.State = schemas.StateFinished
	return nil
}

// echoed checks what the answer says about its own call.
func (c *call) echoed(answer jsonx.Value) error {
	for _, part := range [][2]string{
		{"interceptor", c.entry.Name}, {"type", string(c.entry.Type)}, {"phase", string(c.phase)},
	} {
		name, want := part[0], part[1]
		v, ok := jsonx.Lookup(answer, name)
		if !ok || isNull(v) {
			continue
		}
		got, ok := jsonx.StringOf(v)
		if name == "type" && got == "observability" {
			got = string(schemas.TypeSink) // the name before 2026-06
		}
		if !ok || got != want {
			return fmt.Errorf("%s is %.100s, the call was to %q", name, v, want)
		}
	}
	return nil
}

func (r *result) validation(body jsonx.Value) (err error) {
	if r.inv.Valid, err = flag(body, "valid"); err != nil {
		return err
	}
	v, given := jsonx.Lookup(body, "severity")
	r.inv.Severity = severity(v)
	if !given && *r.inv.Valid {
		r.inv.Severity = ""
	}
	if messages, ok := jsonx.Lookup(body, "messages"); ok && !isNull(messages) {
		if messages[0] != '[' {
			return errors.New("messages is not a list")
		}
		r.detail.Messages = messages
		for m := range jsonx.Elements(messages) {
			level, _ := jsonx.Lookup(m, "severity")
			switch severity(level) {
			case schemas.SeverityInfo:
				r.inv.Infos++
			case schemas.SeverityWarn:
				r.inv.Warnings++
			default:
				r.inv.Errors++
			}
		}
	}
	if suggestions, ok := jsonx.Lookup(body, "suggestions"); ok && !isNull(suggestions) {
		r.detail.Suggestions = suggestions
	}
	return nil
}

func (r *result) mutation(c *call, answer, body jsonx.Value) (err error) {
	if r.inv.Modified, err = flag(body, "modified"); err != nil {
		return err
	}
	payload, ok := jsonx.Lookup(answer, "payload")
	if !ok {
		payload, ok = jsonx.Lookup(body, "payload")
	}
	if !ok && *r.inv.Modified {
		return errors.New("modified without a payload")
	}
	if !ok {
		return nil
	}
	payload = unwrap(c.event, payload)
	if *r.inv.Modified {
		r.detail.Payload = payload
		return nil
	}
	if !same(payload, c.payload) {
		return errors.New("modified is false, but the payload is another")
	}
	return nil
}

// unwrap takes params out of {method, params}.
func unwrap(event string, payload jsonx.Value) jsonx.Value {
	method, ok := jsonx.Lookup(payload, "method")
	if name, isText := jsonx.StringOf(method); !ok || !isText || name != event {
		return payload
	}
	if params, ok := jsonx.Lookup(payload, "params"); ok && isObject(params) {
		return params
	}
	return payload
}

func same(a, b jsonx.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := jsonx.Canonical(a)
	y, errY := jsonx.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// severity is info, warn, or error for all else.
func severity(v jsonx.Value) schemas.Severity {
	text, _ := jsonx.StringOf(v)
	switch s := schemas.Severity(text); s {
	case schemas.SeverityInfo, schemas.SeverityWarn:
		return s
	default:
		return schemas.SeverityError
	}
}

func flag(v jsonx.Value, name string) (*bool, error) {
	member, _ := jsonx.Lookup(v, name)
	switch string(bytes.TrimSpace(member)) {
	case "true":
		return new(true), nil
	case "false":
		return new(false), nil
	}
	return nil, fmt.Errorf("%s is not true or false", name)
}

func object(v jsonx.Value, name string) jsonx.Value {
	if member, ok := jsonx.Lookup(v, name); ok && isObject(member) {
		return member
	}
	return nil
}

func isObject(v jsonx.Value) bool {
	t := bytes.TrimLeft(v, " \t\r\n")
	return len(t) > 0 && t[0] == '{'
}

func isNull(v jsonx.Value) bool { return string(bytes.TrimSpace(v)) == "null" }
