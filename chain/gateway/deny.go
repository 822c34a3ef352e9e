package gateway

import (
	"strconv"
	"strings"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// metaDenial is the member of a result's _meta that repeats the error which the result stands for, so
// that a program need not read the text.
const metaDenial = "io.modelcontextprotocol/interceptors"

// refusal is the answer for a caller whose exchange ends with an error.
func (x *exchange) refusal(v *verdict) answer {
	if !x.deniedByResult(v) {
		return errorAnswer(x.msg.ID, v.rpc)
	}
	return answer{raw: wire.NewResponse(x.msg.ID, denialResult(v.rpc, stateless(x.version))), changed: true}
}

// deniedByResult reports whether the caller gets a tool result in place of the error.
func (x *exchange) deniedByResult(v *verdict) bool {
	return x.rules.DenyAs == DenyAsResult && v.outcome == schemas.OutcomeDenied && v.denial != nil &&
		x.msg.Method == methodToolsCall && !x.reverse
}

// denialResult says in a tool result what an error says; it holds nothing more than that.
func denialResult(e *wire.RPCError, typed bool) jsonx.Value {
	b := []byte("{")
	if typed { // from 2026-07-28 on every result names its type
		b = append(b, `"resultType":"complete",`...)
	}
	b = append(b, `"content":[{"type":"text","text":`...)
	b = appendQuoted(b, denialText(e))
	b = append(b, `}],"isError":true,"_meta":{"`+metaDenial+`":{"code":`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	b = appendQuoted(append(b, `,"message":`...), e.Message)
	if len(e.Data) > 0 {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return append(b, "}}}"...)
}

// denialText is the message and, as far as the error tells, who said what.
func denialText(e *wire.RPCError) string {
	said := []string{e.Message}
	list, _ := jsonx.Lookup(e.Data, "validationErrors")
	for entry := range jsonx.Elements(list) {
		who, _ := wire.MemberString(entry, "interceptor")
		what, _ := wire.MemberString(entry, "message")
		said = append(said, who+": "+what)
	}
	for _, member := range []string{"failedInterceptor", "interceptor"} {
		if who, ok := wire.MemberString(e.Data, member); ok {
			reason, _ := wire.MemberString(e.Data, "reason")
			said = append(said, who+": "+reason)
		}
	}
	return strings.Join(said, "\n")
}

// appendQuoted appends a text as JSON; what is not UTF-8 in it is replaced.
func appendQuoted(b []byte, s string) []byte {
	b, _ = jsonx.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	return b
}
