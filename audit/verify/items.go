package verify

import (
	"cmp"
	"fmt"
	"slices"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Items compares the open items of events with the commitments that the events sealed. rows are those of both tables, in any
// order. gone is asked about an item that is not there. It returns how many of the rows belong to the events.
func (c *Checker) Items(events []Located, rows []ContextRow, gone func(Located, *schemas.OpenRef) Absence) uint64 {
	slices.SortFunc(rows, func(a, b ContextRow) int {
		return cmp.Or(a.Event.Compare(b.Event), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Part, b.Part))
	})
	taken := uint64(0)
	for _, e := range events {
		first, _ := slices.BinarySearchFunc(rows, e.Event.ID, func(r ContextRow, id uuid.UUID) int { return r.Event.Compare(id) })
		n := first
		for n < len(rows) && rows[n].Event == e.Event.ID {
			n++
		}
		c.eventItems(e, rows[first:n], gone)
		taken += uint64(n - first) //nolint:gosec // not negative
	}
	return taken
}

// Absence says why an open item is not there.
type Absence int

// The reasons.
const (
	AbsentErased  Absence = iota // an erasure tells of it
	AbsentPending                // it may not be stored yet
	AbsentMissing                // nothing tells why
)

func (c *Checker) eventItems(e Located, rows []ContextRow, gone func(Located, *schemas.OpenRef) Absence) {
	for i := range e.Event.Open {
		ref := &e.Event.Open[i]
		first := slices.IndexFunc(rows, func(r ContextRow) bool { return r.Role == string(ref.Role) && r.Index == number(ref.Index) })
		if first < 0 {
			c.absent(e, ref, gone(e, ref))
			continue
		}
		end := first
		for end < len(rows) && rows[end].Role == rows[first].Role && rows[end].Index == rows[first].Index {
			end++
		}
		c.item(e, ref, rows[first:end])
		rows = slices.Concat(rows[:first], rows[end:])
	}
	for i := range rows {
		f := itemAt(e, &rows[i].ItemColumns)
		f.Check, f.Text = CheckRowForeign, "its event does not name this item"
		c.report.add(f)
	}
}

func itemTable(role string) string {
	switch schemas.Role(role) {
	case schemas.RoleBefore, schemas.RoleAfter, schemas.RoleStep:
		return "bodies"
	default:
		return "open_items"
	}
}

func itemAt(e Located, row *ItemColumns) Finding {
	f := at(itemTable(row.Role), e.Row)
	f.Stream, f.Position = row.Stream, row.Position
	f.Item = schemas.ItemName(schemas.Role(row.Role), int(row.Index))
	return f
}

func (c *Checker) absent(e Located, ref *schemas.OpenRef, why Absence) {
	switch why {
	case AbsentErased:
		c.report.Items.Erased++
	case AbsentPending:
		c.report.Items.Pending++
	case AbsentMissing:
		f := at(itemTable(string(ref.Role)), e.Row)
		f.Check, f.Item, f.Text = CheckItemMissing, ref.Name(), "the event names this item, it is not here, and no erasure tells of it"
		c.report.add(f)
	}
}

// item compares one item, put together from its parts, with its commitment.
func (c *Checker) item(e Located, ref *schemas.OpenRef, rows []ContextRow) {
	where := itemAt(e, &rows[0].ItemColumns)
	data := []byte(rows[0].Data)
	for i := range rows {
		row := &rows[i]
		want := ItemColumns{
			Place: place(e.Row, e.Event), Kind: string(e.Event.Kind), Role: string(ref.Role), Index: number(ref.Index), Part: number(i),
			Parts: number(max(len(rows), 1)), Keep: string(ref.Keep), Salt: rows[0].Salt, Data: row.Data,
		}
		want.Stream, want.Position, want.Published = row.Stream, row.Position, row.Published // the open stream's own
		differ(c, itemAt(e, &row.ItemColumns), &want, &row.ItemColumns)
		if where.Table == "open_items" {
			typed := contextColumns(&row.ItemColumns)
			differ(c, itemAt(e, &row.ItemColumns), &typed, &row.ContextColumns)
		}
		if i > 0 {
			data = append(data, row.Data...)
		}
	}
	if text := Committed(ref, rows[0].Salt, data); text != "" {
		where.Check, where.Text = CheckItem, text
		c.report.add(where)
		return
	}
	c.report.Items.Checked++
	c.report.Items.Bytes += uint64(len(data))
	if len(data) == 0 && ref.Bytes > 0 {
		c.report.Items.Empty++
	}
}

// Committed says why salt and kept form are not what an event committed to; nothing when they are.
func Committed(ref *schemas.OpenRef, salt seal.Salt, kept []byte) string {
	switch {
	case ref.Keep == schemas.KeepNone || ref.Keep == schemas.KeepDigest:
		if len(kept) > 0 {
			return fmt.Sprintf("nothing was kept under the policy %s, here are %d bytes", ref.Keep, len(kept))
		}
	case !ref.Kept.IsZero():
		if len(kept) != ref.KeptBytes || seal.Commit(seal.DomainKept, salt, kept) != ref.Kept {
			return "the kept form is not the one that was committed to"
		}
	case len(kept) != ref.Bytes || seal.Commit(seal.DomainTrue, salt, kept) != ref.Commitment:
		return "the value is not the one that was committed to"
	}
	return ""
}

// Stray is told of an open item whose event is not there.
func (c *Checker) Stray(row *ItemColumns) {
	c.report.add(Finding{
		Check: CheckRowForeign, Table: itemTable(row.Role), Stream: row.Stream, Position: row.Position, Writer: row.Writer, Seq: row.Seq,
		Item: schemas.ItemName(schemas.Role(row.Role), int(row.Index)), Text: "no sealed event names this item",
	})
}
