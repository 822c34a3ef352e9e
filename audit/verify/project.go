package verify

import (
	"math"
	"strconv"
	"strings"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// instant is a time as the store holds it: between 1900 and 2299.
func instant(t schemas.Time) schemas.Time {
	const first, last = -2208988800_000000, 10413791999_999999
	return min(max(t, first), last)
}

func number(n int) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

func maybe(b *bool) Maybe {
	switch {
	case b == nil:
		return -1
	case *b:
		return 1
	}
	return 0
}

// shardOf is the number at the end of a stream's name.
func shardOf(stream string) uint16 {
	n, err := strconv.ParseUint(stream[strings.LastIndexByte(stream, '_')+1:], 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

func exchangeOf(event *schemas.Event) uuid.UUID {
	if event.Correlation == nil {
		return uuid.Nil()
	}
	return event.Correlation.Exchange
}

// eventColumns is what the row of an event must hold. Stream, position, leaf and the time of publication are not sealed: they
// are taken as they are, or judged elsewhere.
func eventColumns(row *EventRow, event *schemas.Event) EventColumns {
	return EventColumns{
		Stream: row.Stream, Shard: shardOf(row.Stream), Position: row.Position, Writer: event.Writer, Seq: event.Seq, Hash: row.Hash,
		Leaf: row.Leaf, Kind: string(event.Kind), Event: event.ID, Exchange: exchangeOf(event), Time: instant(event.Time),
		Published: row.Published, Tenant: event.Tenant,
	}
}

func place(row *EventRow, event *schemas.Event) Place {
	return Place{
		Tenant: event.Tenant, Time: instant(event.Time), Published: row.Published, Stream: row.Stream, Position: row.Position,
		Writer: event.Writer, Seq: event.Seq, Event: event.ID, Exchange: exchangeOf(event),
	}
}

// groups returns the groups of an event, empty ones for those that it does not have.
func groups(event *schemas.Event) (c schemas.Correlation, a schemas.Actor, op schemas.Operation, d schemas.Decision) {
	if event.Correlation != nil {
		c = *event.Correlation
	}
	if event.Actor != nil {
		a = *event.Actor
	}
	if event.Operation != nil {
		op = *event.Operation
	}
	if event.Decision != nil {
		d = *event.Decision
	}
	return c, a, op, d
}

// interception is the row of a request or outcome event.
func interception(row *EventRow, event *schemas.Event) InterceptionRow {
	c, a, op, d := groups(event)
	before, after := sizes(event.Open)
	return InterceptionRow{
		Place: place(row, event), Kind: string(event.Kind), Call: c.Call, Parent: c.Parent, Gateway: event.Gateway, Server: op.Server,
		Method: op.Event, Phase: string(op.Phase), Direction: string(op.Direction), Reverse: op.Reverse, Target: op.Target,
		TargetRef: string(op.TargetRef), Session: string(c.Session), RequestID: string(c.RequestID), StateIn: string(c.StateIn),
		StateOut: string(c.StateOut), PrincipalType: a.Type, PrincipalRef: string(a.Pseudonym), VerifiedBy: a.VerifiedBy,
		TraceID: c.TraceID, SpanID: c.SpanID, ProtocolVersion: c.ProtocolVersion, Transport: c.Transport, Status: string(d.Status),
		Outcome: string(d.Outcome), AbortedAt: d.AbortedAt, AbortType: d.AbortType, AbortPhase: string(d.AbortPhase), Cause: d.Cause,
		Errors: number(d.Errors), Warnings: number(d.Warnings), Infos: number(d.Infos), Modified: d.Modified, IsError: d.IsError,
		ErrorCode: int64(d.ErrorCode), PlanDigest: d.PlanDigest, ChainUS: d.ChainUS, BackendUS: d.BackendUS, TotalUS: d.TotalUS,
		StartedAt: instant(d.StartedAt), BytesBefore: before, BytesAfter: after, Interceptors: number(len(event.Invocations)),
	}
}

// sizes are the true sizes of the payload as it arrived and as it went on.
func sizes(open []schemas.OpenRef) (before, after uint64) {
	changed := false
	for i := range open {
		size := uint64(max(open[i].Bytes, 0))
		switch open[i].Role {
		case schemas.RoleBefore:
			before = size
		case schemas.RoleAfter:
			after, changed = size, true
		default:
		}
	}
	if !changed {
		after = before
	}
	return before, after
}

// invocations are the rows of an event's interceptors; what was handed over has its row with its result.
func invocations(dst []InvocationRow, row *EventRow, event *schemas.Event) []InvocationRow {
	c, _, op, _ := groups(event)
	of := event.ID
	if event.Kind == schemas.KindInvocation {
		of = c.Interception
	}
	for i := range event.Invocations {
		v := &event.Invocations[i]
		if v.State == schemas.StateDeferred {
			continue
		}
		dst = append(dst, InvocationRow{
			Place: place(row, event), Kind: string(event.Kind), Interception: of, ID: v.ID, Interceptor: v.Interceptor,
			Version: v.Version, Host: v.Host, Type: string(v.Type), Mode: string(v.Mode), ModeReason: v.ModeReason, FailOpen: v.FailOpen,
			Priority: v.Priority, PlanOrder: number(v.Order), State: string(v.State), SkipReason: string(v.SkipReason),
			Valid: maybe(v.Valid), Severity: string(v.Severity), Modified: maybe(v.Modified), Recorded: maybe(v.Recorded),
			Input: v.Input, Output: v.Output, Errors: number(v.Errors), Warnings: number(v.Warnings), Infos: number(v.Infos),
			ErrorCode: int64(v.ErrorCode), Attempt: number(v.Attempt), DurationUS: v.DurationUS, Server: op.Server, Method: op.Event,
			Phase: string(op.Phase), Direction: string(op.Direction), Target: op.Target,
		})
	}
	return dst
}

func plan(row *EventRow, event *schemas.Event) PlanRow {
	return PlanRow{
		Place: place(row, event), Digest: event.Plan.Digest, Server: event.Plan.Server, Entries: number(len(event.Plan.Entries)),
		Plan: string(row.Raw),
	}
}

// contextColumns are the typed columns of a context or a detail that is whole; else they are empty.
func contextColumns(item *ItemColumns) ContextColumns {
	var c schemas.Context
	var d schemas.Detail
	if item.Parts <= 1 && item.Data != "" {
		switch schemas.Role(item.Role) {
		case schemas.RoleContext:
			if found, err := schemas.DecodeContext([]byte(item.Data)); err == nil {
				c = *found
			}
		case schemas.RoleDetail:
			if jsonx.Unmarshal([]byte(item.Data), &d) != nil {
				d = schemas.Detail{}
			}
		default:
		}
	}
	return ContextColumns{
		SessionID: c.SessionID, RequestID: string(c.RequestID), Method: c.Method, Target: c.Target, PrincipalType: c.PrincipalType,
		Principal: c.Principal, ClientName: c.ClientName, ClientVersion: c.ClientVersion, ClientAddress: c.ClientAddress,
		UserAgent: c.UserAgent, ProtocolVersion: c.Protocol, Reason: d.Reason,
	}
}
