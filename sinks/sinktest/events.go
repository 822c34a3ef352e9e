package sinktest

import (
	"fmt"
	"strconv"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
	"github.com/chaintrail/chaintrail/sinks"
)

// Writer makes the events of one writer as a journal would, chained and numbered.
type Writer struct {
	ID     uuid.UUID
	Tenant string
	Seq    uint64
	Time   schemas.Time // of the next event; grows by 1 ms with each
	prev   seal.Hash
}

// NewWriter returns a writer of tenant "acme" whose first event happens now.
func NewWriter() *Writer {
	return &Writer{ID: uuid.NewV7(), Tenant: "acme", Time: schemas.At(time.Now())}
}

// Event seals an event as a message of an event stream.
func (w *Writer) Event(tb testing.TB, event *schemas.Event) sinks.Message {
	tb.Helper()
	w.Seq++
	w.Time += 1000
	event.Schema, event.Writer, event.Seq, event.PrevHash = schemas.Version, w.ID, w.Seq, w.prev
	event.Time, event.Tenant = w.Time, w.Tenant
	if event.ID == uuid.Nil() {
		event.ID = uuid.NewV7()
	}
	raw, err := jsonx.Marshal(event)
	if err != nil {
		tb.Fatal(err)
	}
	w.prev = seal.Event(raw)
	return sinks.Message{
		Subject: fmt.Sprintf("chaintrail.v1.3.%s.%s.%s", w.Tenant, w.ID, event.Kind),
		Header: map[string][]string{
			"Chaintrail-Hash": {w.prev.String()}, "Chaintrail-Seq": {strconv.FormatUint(w.Seq, 10)},
		},
		Data: raw,
	}
}

// Item makes the message of an open stream for an item of an event that was made by this writer.
func (w *Writer) Item(tb testing.TB, event *schemas.Event, h schemas.OpenHeader, data []byte) sinks.Message {
	tb.Helper()
	h.Event, h.Tenant, h.Writer, h.Seq, h.Time, h.Kind = event.ID, event.Tenant, event.Writer, event.Seq, event.Time, event.Kind
	if event.Correlation != nil {
		h.Exchange = event.Correlation.Exchange
	}
	h.Salt = seal.NewSalt()
	if h.Keep == "" {
		h.Keep = schemas.KeepFull
	}
	raw, err := jsonx.Marshal(&h)
	if err != nil {
		tb.Fatal(err)
	}
	class := "kept"
	if h.Role == schemas.RoleSnapshot {
		class = "transient"
	}
	return sinks.Message{
		Subject: fmt.Sprintf("chaintrail-open.v1.3.%s.%s.%s", w.Tenant, w.ID, class),
		Header:  map[string][]string{"Chaintrail-Item": {string(raw)}},
		Data:    data,
	}
}

// Call is one exchange with its two events and their open items.
type Call struct {
	Exchange         uuid.UUID
	Request, Outcome schemas.Event
	Events           []sinks.Message
	Items            []sinks.Message
}

// Call makes an exchange: a tools/call of tool by principal with an outcome, an in-path validator and a deferred sink.
func (w *Writer) Call(tb testing.TB, tool, principal string, outcome schemas.Outcome, body string) *Call {
	tb.Helper()
	c := &Call{Exchange: uuid.NewV7()}
	valid := outcome != schemas.OutcomeDenied
	correlation := func() *schemas.Correlation {
		return &schemas.Correlation{
			Exchange: c.Exchange, Session: "5e5510", TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331",
			ProtocolVersion: "2025-11-25", Transport: "http",
		}
	}
	actor := &schemas.Actor{Type: "user", Pseudonym: seal.Pseudonym("p-" + principal)}
	c.Request = schemas.Event{
		Kind: schemas.KindRequest, Gateway: "gw", Correlation: correlation(), Actor: actor,
		Operation: &schemas.Operation{
			Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Server: "demo", Target: tool,
		},
		Decision: &schemas.Decision{Status: schemas.StatusSuccess, ChainUS: 12},
		Invocations: []schemas.Invocation{
			{
				ID: "v" + c.Exchange.String(), Interceptor: "guard", Version: "1.2.0", Host: "inprocess", Type: schemas.TypeValidation,
				Mode: schemas.ModeActive, ModeReason: "canary_percent", Order: 0, State: schemas.StateFinished, Valid: &valid, DurationUS: 9,
			},
			{
				ID: "s" + c.Exchange.String(), Interceptor: "siem", Host: "siem", Type: schemas.TypeSink, Mode: schemas.ModeActive, Order: 1,
				State: schemas.StateDeferred,
			},
		},
		Open: []schemas.OpenRef{
			{Role: schemas.RoleBefore, Bytes: len(body), Keep: schemas.KeepFull},
			{Role: schemas.RoleContext, Bytes: 40, Keep: schemas.KeepFull},
		},
	}
	c.Events = append(c.Events, w.Event(tb, &c.Request))
	context, err := jsonx.Marshal(&schemas.Context{
		SessionID: "session-1", RequestID: jsonx.Value(`7`), Method: "tools/call", Target: tool, PrincipalType: "user",
		Principal: principal, ClientName: "inspector", ClientAddress: "192.0.2.7:4711",
	})
	if err != nil {
		tb.Fatal(err)
	}
	c.Items = append(c.Items,
		w.Item(tb, &c.Request, schemas.OpenHeader{Role: schemas.RoleBefore}, []byte(body)),
		w.Item(tb, &c.Request, schemas.OpenHeader{Role: schemas.RoleContext}, context))
	c.Outcome = schemas.Event{
		Kind: schemas.KindOutcome, Gateway: "gw", Correlation: correlation(), Actor: actor,
		Operation: &schemas.Operation{
			Event: "tools/call", Phase: schemas.PhaseResponse, Direction: schemas.Receiving, Server: "demo", Target: tool,
		},
		Decision: &schemas.Decision{
			Status: schemas.StatusSuccess, Outcome: outcome, ChainUS: 5, BackendUS: 800, TotalUS: 1000, StartedAt: c.Request.Time,
		},
	}
	if outcome == schemas.OutcomeDenied {
		c.Outcome.Decision.Status, c.Outcome.Decision.AbortedAt = schemas.StatusValidationFailed, "guard"
	}
	c.Events = append(c.Events, w.Event(tb, &c.Outcome))
	detail, err := jsonx.Marshal(&schemas.Detail{Reason: "because of " + tool})
	if err != nil {
		tb.Fatal(err)
	}
	c.Items = append(c.Items, w.Item(tb, &c.Outcome, schemas.OpenHeader{Role: schemas.RoleDetail}, detail))
	return c
}

// Result makes the invocation event with the result of a call's deferred sink.
func (w *Writer) Result(tb testing.TB, c *Call, attempt int) sinks.Message {
	tb.Helper()
	recorded := true
	v := c.Request.Invocations[1]
	v.State, v.Recorded, v.Attempt, v.DurationUS = schemas.StateFinished, &recorded, attempt, 2500
	return w.Event(tb, &schemas.Event{
		Kind: schemas.KindInvocation, Gateway: "gw",
		Correlation: &schemas.Correlation{Exchange: c.Exchange, Interception: c.Request.ID},
		Operation:   c.Request.Operation, Invocations: []schemas.Invocation{v},
	})
}
