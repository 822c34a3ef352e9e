package verify

import (
	"fmt"

	"github.com/chaintrail/chaintrail/schemas"
)

// Journaled judges the next entry of a journal: an event and all of its open items. Journals have no leaves; where one begins
// was freed before.
func (c *Checker) Journaled(journal string, entry *schemas.Entry) {
	row := &EventRow{Raw: entry.Sealed}
	row.Stream, row.Position, row.Hash, row.Seq, row.Kind, row.Tenant = journal, entry.Seq, entry.Hash, entry.Seq, string(entry.Kind), entry.Tenant
	row.Leaf = noLeaf
	if event, err := schemas.DecodeEvent(entry.Sealed); err == nil {
		row.Writer, row.Event, row.Exchange, row.Time = event.Writer, event.ID, exchangeOf(event), instant(event.Time)
		row.Shard = shardOf(journal)
		c.begin(event)
		c.Announce(row)
	}
	event := c.Event(row)
	if event == nil {
		return
	}
	e := Located{row, event}
	rows := make([]ContextRow, 0, len(entry.Items))
	for i := range entry.Items {
		h := &entry.Items[i].Header
		if h.Role == schemas.RoleSnapshot {
			continue
		}
		item := ItemColumns{
			Place: place(row, event), Kind: string(h.Kind), Role: string(h.Role), Index: number(h.Index), Part: number(h.Part), Parts: number(max(h.Parts, 1)),
			Keep: string(h.Keep), Salt: h.Salt, Data: string(entry.Items[i].Data),
		}
		item.Writer, item.Seq, item.Event, item.Exchange = h.Writer, h.Seq, h.Event, h.Exchange
		rows = append(rows, ContextRow{item, contextColumns(&item)})
	}
	c.Items([]Located{e}, rows, func(Located, *schemas.OpenRef) Absence { return AbsentErased })
}

// begin lets a writer's chain begin where its journal does.
func (c *Checker) begin(event *schemas.Event) {
	if c.writers[event.Writer] != nil || event.Seq <= 1 {
		return
	}
	c.writers[event.Writer] = &writer{
		report: WriterReport{Writer: event.Writer, Tenant: event.Tenant, State: WriterOpen, Began: event.Time, Seq: event.Seq - 1},
		hash:   event.PrevHash,
	}
}

// Broken takes the error that ended the reading of a journal.
func (c *Checker) Broken(journal string, err error) {
	s := c.stream(journal)
	c.report.add(Finding{
		Check: CheckDecode, Table: "journal", Stream: journal, Position: s.last,
		Text: fmt.Sprintf("it cannot be read behind number %d: %v", s.last, err),
	})
}
