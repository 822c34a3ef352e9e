package deferred

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const maxErrorText = 4096 // bytes of an error text that are kept

// result is what became of one invocation.
type result struct {
	inv    schemas.Invocation
	detail *schemas.InvocationDetail // nil when there is nothing to say
}

// fail is the result of an invocation that could not be made.
func (r *result) fail(err error) {
	r.inv.State = schemas.StateFailed
	r.detail = &schemas.InvocationDetail{Order: r.inv.Order, Interceptor: r.inv.Interceptor, Error: shorten(err.Error())}
}

// take fills the result from an answer.
func (r *result) take(a *chain.Answer, attempt int) {
	a.Error = shorten(a.Error)
	a.Fill(&r.inv)
	r.inv.Attempt = attempt
	r.detail = nil
	if detail, ok := a.DeferredDetail(&r.inv); ok {
		r.detail = &detail
	}
}

// hopeless reports whether the same call would meet the same error again.
func hopeless(a *chain.Answer) bool {
	return a.ErrorCode == wire.CodeMethodNotFound || a.ErrorCode == wire.CodeInvalidParams
}

func shorten(text string) string {
	if len(text) <= maxErrorText && utf8.ValidString(text) {
		return text
	}
	end := min(maxErrorText, len(text))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "\uFFFD") + "…"
}

// record is the final result as an event. It copies what joins it with the event it is about.
func (r *result) record(of *schemas.Event) *schemas.Record {
	rec := &schemas.Record{Event: schemas.Event{
		Kind: schemas.KindInvocation, Tenant: of.Tenant, Gateway: of.Gateway,
		Correlation: &schemas.Correlation{}, Actor: of.Actor, Operation: of.Operation,
		Invocations: []schemas.Invocation{r.inv},
	}}
	if of.Correlation != nil {
		*rec.Event.Correlation = *of.Correlation
	}
	rec.Event.Correlation.Interception = of.ID
	if r.detail == nil {
		return rec
	}
	text, err := jsonx.Marshal(schemas.Detail{Invocations: []schemas.InvocationDetail{*r.detail}})
	if err != nil { // legal JSON that cannot be written as a part of other JSON: a lone surrogate
		text, err = jsonx.Marshal(schemas.Detail{Invocations: []schemas.InvocationDetail{{
			Order: r.inv.Order, Interceptor: r.inv.Interceptor, Error: fmt.Sprintf("what it said cannot be kept: %v", err),
		}}})
	}
	if err == nil {
		rec.Add(schemas.RoleDetail, 0, text)
	}
	return rec
}
