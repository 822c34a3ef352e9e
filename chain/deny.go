package chain

import (
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// The types of a [Denial].
const (
	denyValidation = "validation"
	denyMutation   = "mutation"
	denyTimeout    = "timeout"
)

// Bounds of what a denial repeats of an interceptor's words.
const (
	maxDenyMessages = 32
	maxDenyText     = 1024 // bytes
)

// What a caller is told of an invocation without a result: nothing that came from outside.
const (
	textFailed    = "the interceptor failed"
	textTimeout   = "the interceptor timed out"
	textMalformed = "the interceptor gave a malformed answer"
	textExpired   = "the time for all interceptors was used up"
	textInvalid   = "validation failed"
	textCancelled = "the caller gave up"
)

func textOf(a *Answer) string {
	switch a.State {
	case schemas.StateTimeout:
		return textTimeout
	case schemas.StateMalformed:
		return textMalformed
	default:
		return textFailed
	}
}

// denyValidation collects what the blocking validators said.
type validationErrors struct {
	list   []byte
	count  int
	reason string
}

func (v *validationErrors) add(interceptor, severity, text string) {
	if v.reason == "" {
		v.reason = text
	}
	if v.count++; v.count > maxDenyMessages {
		return
	}
	if len(text) > maxDenyText {
		text = text[:maxDenyText]
	}
	if v.count > 1 {
		v.list = append(v.list, ',')
	}
	v.list = appendString(append(v.list, `{"interceptor":`...), interceptor)
	v.list = appendString(append(v.list, `,"severity":`...), severity)
	v.list = append(appendString(append(v.list, `,"message":`...), text), '}')
}

// addAnswer adds the messages of severity error, or a fixed text when there is none.
func (v *validationErrors) addAnswer(interceptor string, a *Answer) {
	if !a.Blocks {
		v.add(interceptor, string(schemas.SeverityError), textOf(a))
		return
	}
	before := v.count
	for message := range jsonx.Elements(a.Messages) {
		text, _ := jsonx.Lookup(message, "message")
		said, ok := jsonx.StringOf(text)
		if severity, has := jsonx.Lookup(message, "severity"); has && !isNull(severity) {
			if name, _ := jsonx.StringOf(severity); severityOf(name) != schemas.SeverityError {
				continue
			}
		}
		if ok && said != "" {
			v.add(interceptor, string(schemas.SeverityError), said)
		}
	}
	if v.count == before {
		v.add(interceptor, string(schemas.SeverityError), textInvalid)
	}
}

func (v *validationErrors) data() jsonx.Value {
	return append(append([]byte(`{"validationErrors":[`), v.list...), `]}`...)
}

// denial makes the error that SEP-2624 gives the caller.
func (p *Plan) denial(kind, interceptor string, phase schemas.Phase, reason string, data jsonx.Value) *Denial {
	d := &Denial{Interceptor: interceptor, Type: kind, Phase: phase, Data: data, Reason: reason}
	switch kind {
	case denyValidation:
		d.Code, d.Message = wire.CodeInvalidParams, "Interceptor validation failed"
	case denyMutation:
		d.Code, d.Message = wire.CodeInternal, "Interceptor mutation failed"
	default:
		d.Code, d.Message = wire.CodeTimeout, "Interceptor execution timeout"
	}
	if p.config.DenyDetail == DenyGeneric {
		d.Message, d.Data = "Blocked by policy", nil
	}
	return d
}

func mutationData(interceptor, reason string) jsonx.Value {
	b := appendString([]byte(`{"failedInterceptor":`), interceptor)
	return append(appendString(append(b, `,"reason":`...), reason), '}')
}

func timeoutData(interceptor string, timeoutMS int64, phase schemas.Phase) jsonx.Value {
	b := appendString([]byte(`{"interceptor":`), interceptor)
	b = appendInt(append(b, `,"timeoutMs":`...), timeoutMS)
	b = appendString(append(b, `,"phase":`...), string(phase))
	return append(b, `,"reason":"timeout"}`...)
}
