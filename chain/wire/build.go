package wire

import (
	"math"
	"slices"
	"strconv"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// WithParams returns the message with other params, all else byte for byte; nil params stay absent.
// params MUST be grammatical. The message itself is not modified.
func (m *Message) WithParams(params jsonx.Value) Message {
	out := *m
	switch {
	case m.Params != nil:
		out.Raw = splice(m.Raw, m.paramsAt, len(m.Params), params)
		out.paramsAt, out.Params = m.paramsAt, out.Raw[m.paramsAt:m.paramsAt+len(params)]
	case params != nil && m.insertAt > 0:
		member := slices.Concat([]byte(`,"params":`), params)
		out.Raw = splice(m.Raw, m.insertAt, 0, member)
		out.paramsAt = m.insertAt + len(member) - len(params)
		out.Params = out.Raw[out.paramsAt : out.paramsAt+len(params)]
	}
	out.Flags &^= FlagNull
	return out
}

// WithResult returns the response with another result, all else byte for byte. result MUST be
// grammatical. For anything but a response it returns the message as it is.
func (m *Message) WithResult(result jsonx.Value) Message {
	out := *m
	if m.Kind != KindResponse {
		return out
	}
	out.Raw = splice(m.Raw, m.resultAt, len(m.Result), result)
	out.Result = out.Raw[m.resultAt : m.resultAt+len(result)]
	return out
}

// WithID returns raw of the message with another id; for messages without an id, raw as it is.
func (m *Message) WithID(id jsonx.Value) []byte {
	if m.ID == nil {
		return m.Raw
	}
	for member := range jsonx.Members(m.Raw) {
		if string(member.Name) == "id" {
			return splice(m.Raw, member.At, len(member.Value), id)
		}
	}
	return m.Raw
}

func splice(raw []byte, at, length int, with []byte) []byte {
	out := make([]byte, 0, len(raw)-length+len(with))
	out = append(out, raw[:at]...)
	out = append(out, with...)
	return append(out, raw[at+length:]...)
}

// NewRequest builds a request. id and params MUST be grammatical; nil params are left out.
func NewRequest(id jsonx.Value, method string, params jsonx.Value) []byte {
	return AppendRequest(make([]byte, 0, len(id)+len(method)+len(params)+48), id, method, params)
}

// NewNotification builds a notification.
func NewNotification(method string, params jsonx.Value) []byte {
	return AppendRequest(make([]byte, 0, len(method)+len(params)+48), nil, method, params)
}

// AppendRequest appends a request, or with a nil id a notification, to dst.
func AppendRequest(dst []byte, id jsonx.Value, method string, params jsonx.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(dst, `"id":`...)
		dst = append(dst, id...)
		dst = append(dst, ',')
	}
	dst = append(dst, `"method":`...)
	dst = appendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// NewResponse builds a response; a nil result becomes {}.
func NewResponse(id, result jsonx.Value) []byte {
	if result == nil {
		result = jsonx.Value("{}")
	}
	dst := make([]byte, 0, len(id)+len(result)+36)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// NewErrorAnswer builds an error answer; a nil id becomes null.
func NewErrorAnswer(id jsonx.Value, e *RPCError) []byte {
	if id == nil {
		id = jsonx.Value("null")
	}
	dst := make([]byte, 0, len(id)+len(e.Message)+len(e.Data)+80)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, "}}"...)
}

func appendString(dst []byte, s string) []byte {
	quoted, _ := jsonx.AppendQuote(dst, s) // invalid UTF-8 is written as replacement characters
	return quoted
}

// IDKey returns a key under which two spellings of one id meet: escapes resolved, and whole numbers
// that survive a float64 written plainly. It is meant for tables of pending calls.
func IDKey(id jsonx.Value) string {
	if s, ok := jsonx.StringOf(id); ok {
		return `"` + s
	}
	for _, c := range id {
		if c == '.' || c == 'e' || c == 'E' {
			f, err := strconv.ParseFloat(string(id), 64)
			if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				return strconv.FormatInt(int64(f), 10)
			}
			break
		}
	}
	return string(id)
}
