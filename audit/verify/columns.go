package verify

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/chaintrail/chaintrail/schemas"
)

// differ finds every column in which a row is not what the sealed bytes say.
func differ[T comparable](c *Checker, where Finding, want, got *T) {
	if *want == *got {
		return
	}
	columns(reflect.ValueOf(want).Elem(), reflect.ValueOf(got).Elem(), func(name string, want, got any) {
		f := where
		f.Check, f.Column, f.Text = CheckColumn, name, fmt.Sprintf("is %.100v, sealed was %.100v", got, want)
		c.report.add(f)
	})
}

// columns calls found for each tagged field that differs, those of embedded structs too.
func columns(want, got reflect.Value, found func(name string, want, got any)) {
	for i := range want.NumField() {
		field := want.Type().Field(i)
		if field.Anonymous {
			columns(want.Field(i), got.Field(i), found)
			continue
		}
		if w, g := want.Field(i).Interface(), got.Field(i).Interface(); w != g {
			found(field.Tag.Get("ch"), w, g)
		}
	}
}

// Located is an event with the row that it was read from.
type Located struct {
	Row   *EventRow
	Event *schemas.Event
}

// projected is a row of a table that shows sealed events in columns.
type projected interface {
	comparable
	at() Place
	name() string // among the rows of one event
}

func (r InterceptionRow) at() Place  { return r.Place }
func (InterceptionRow) name() string { return "" }
func (r PlanRow) at() Place          { return r.Place }
func (PlanRow) name() string         { return "" }
func (r InvocationRow) at() Place    { return r.Place }
func (r InvocationRow) name() string { return r.ID }

// project compares the rows of one table, in the order of their positions, with what the events of the same stretch of the
// stream become. It returns the expected rows that are not there.
func project[T projected](c *Checker, table string, events []Located, become func([]T, Located) []T, rows []T) (missing []T) {
	var want []T
	for _, e := range events {
		want = become(want[:0], e)
		for len(rows) > 0 && rows[0].at().Position < e.Row.Position {
			foreign(c, table, &rows[0])
			rows = rows[1:]
		}
		n := 0
		for n < len(rows) && rows[n].at().Position == e.Row.Position {
			n++
		}
		missing = append(missing, match(c, table, e.Row, want, rows[:n])...)
		rows = rows[n:]
	}
	for i := range rows {
		foreign(c, table, &rows[i])
	}
	return missing
}

// match compares the rows of one event.
func match[T projected](c *Checker, table string, row *EventRow, want, rows []T) (missing []T) {
	for i := range want {
		n := slices.IndexFunc(rows, func(r T) bool { return r.name() == want[i].name() })
		if n < 0 && len(rows) > 0 && len(rows) == len(want)-i { // its name was changed
			n = 0
		}
		if n < 0 {
			missing = append(missing, want[i])
			continue
		}
		differ(c, at(table, row), &want[i], &rows[n])
		rows = slices.Concat(rows[:n], rows[n+1:])
	}
	for i := range rows {
		if slices.ContainsFunc(want, func(w T) bool { return w.name() == rows[i].name() }) {
			f := at(table, row)
			f.Check, f.Text = CheckRowDouble, "this row is there more than once"
			c.report.add(f)
			continue
		}
		foreign(c, table, &rows[i])
	}
	return missing
}

func foreign[T projected](c *Checker, table string, row *T) {
	p := (*row).at()
	c.report.add(Finding{
		Check: CheckRowForeign, Table: table, Stream: p.Stream, Position: p.Position, Writer: p.Writer, Seq: p.Seq,
		Text: "no sealed event explains this row",
	})
}

func (c *Checker) lacks(table string, p *Place, text string) {
	c.report.add(Finding{
		Check: CheckRowMissing, Table: table, Stream: p.Stream, Position: p.Position, Writer: p.Writer, Seq: p.Seq, Text: text,
	})
}

func wantInterceptions(dst []InterceptionRow, e Located) []InterceptionRow {
	if e.Event.Kind != schemas.KindRequest && e.Event.Kind != schemas.KindOutcome {
		return dst
	}
	return append(dst, interception(e.Row, e.Event))
}

func wantPlans(dst []PlanRow, e Located) []PlanRow {
	if e.Event.Kind != schemas.KindPlan || e.Event.Plan == nil {
		return dst
	}
	return append(dst, plan(e.Row, e.Event))
}

func wantInvocations(dst []InvocationRow, e Located) []InvocationRow {
	switch e.Event.Kind {
	case schemas.KindRequest, schemas.KindOutcome, schemas.KindInvocation:
		return invocations(dst, e.Row, e.Event)
	default:
		return dst
	}
}

// Interceptions compares rows of the table with the events of the same stretch of a stream.
func (c *Checker) Interceptions(events []Located, rows []InterceptionRow) {
	for _, m := range project(c, "interceptions", events, wantInterceptions, rows) {
		c.lacks("interceptions", &m.Place, "the row of this event is missing")
	}
}

// Plans compares rows of the table with the events of the same stretch of a stream.
func (c *Checker) Plans(events []Located, rows []PlanRow) {
	for _, m := range project(c, "plans", events, wantPlans, rows) {
		c.lacks("plans", &m.Place, "the row of this event is missing")
	}
}

// Invocations compares rows of the table with the events of the same stretch of a stream. It returns results of deferred work
// that have no row: a second result of one invocation has none, see [Checker.Repeated].
func (c *Checker) Invocations(events []Located, rows []InvocationRow) (deferred []InvocationRow) {
	for _, m := range project(c, "invocations", events, wantInvocations, rows) {
		if m.Kind == string(schemas.KindInvocation) {
			deferred = append(deferred, m)
			continue
		}
		c.lacks("invocations", &m.Place, "the row of "+m.Interceptor+" is missing")
	}
	return deferred
}

// Repeated judges results that have no row: first says at which position of the stream the row of an invocation is.
func (c *Checker) Repeated(missing []InvocationRow, first map[string]uint64) {
	for i := range missing {
		m := &missing[i]
		if at, ok := first[m.ID]; !ok || at >= m.Position {
			c.lacks("invocations", &m.Place, "the row of "+m.Interceptor+" is missing")
		}
	}
}
