package query

import (
	"context"
	"time"
	"unicode/utf8"
	"uuid"

	driveruuid "github.com/google/uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// maxParts bounds the rows of open items of one timeline.
const maxParts = 10_000

// kept is what the store has of one open item.
type kept struct {
	data      []byte
	truncated bool
}

// place names an item: its event and its name in it.
type place struct {
	event uuid.UUID
	name  string
}

// open puts beside the events of a timeline what lies in the open tables, and joins deferred results to their plan.
func (r *Reader) open(ctx context.Context, t *Timeline, results []Phase, maxBody int) error {
	events := append(append([]Phase(nil), t.Phases...), results...)
	ids := make([]driveruuid.UUID, len(events))
	first, last := events[0].Event.Time, events[0].Event.Time
	for i := range events {
		ids[i] = driveruuid.UUID(events[i].Event.ID)
		first, last = min(first, events[i].Event.Time), max(last, events[i].Event.Time)
	}
	items := map[place]*kept{}
	for _, table := range []string{"bodies", "open_items"} {
		if err := r.items(ctx, items, table, maxBody, t.Tenant, int64(first), int64(last), ids); err != nil {
			return err
		}
	}
	deferred := map[string]Invocation{}
	for i := range results {
		event := &results[i].Event
		detail := detailOf(items, event.ID)
		for n := range event.Invocations {
			v := &event.Invocations[n]
			deferred[v.ID] = Invocation{
				Invocation: *v, Deferred: true, Ended: event.Time.Std(), Detail: said(detail, v),
			}
		}
	}
	for i := range t.Phases {
		t.Phases[i].fill(items, deferred)
	}
	return nil
}

// items reads the items of events from one table, with their parts put together.
func (r *Reader) items(ctx context.Context, into map[place]*kept, table string, maxBody int, tenant string, first, last int64, ids []driveruuid.UUID) error {
	rows, err := r.query(ctx, "SELECT event_id, role, idx, substring(data, 1, ?), length(data) FROM "+table+
		" WHERE tenant = ? AND time >= fromUnixTimestamp64Micro(?, 'UTC') AND time <= fromUnixTimestamp64Micro(?, 'UTC') AND event_id IN ?"+
		" ORDER BY event_id, role, idx, part LIMIT ?",
		maxBody, tenant, first, last, ids, maxParts)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var id driveruuid.UUID
		var role, data string
		var index uint32
		var length uint64
		if err := rows.Scan(&id, &role, &index, &data, &length); err != nil {
			return err
		}
		at := place{uuid.UUID(id), schemas.ItemName(schemas.Role(role), int(index))}
		k := into[at]
		if k == nil {
			k = &kept{}
			into[at] = k
		}
		room := max(maxBody-len(k.data), 0)
		if uint64(room) < length {
			k.truncated = true
		}
		k.data = append(k.data, data[:min(room, len(data))]...)
		return nil
	})
}

// fill joins a phase with its items and with the results of its deferred invocations.
func (p *Phase) fill(items map[place]*kept, deferred map[string]Invocation) {
	id := p.Event.ID
	if k := items[place{id, string(schemas.RoleContext)}]; k != nil && len(k.data) > 0 {
		c := new(schemas.Context)
		if jsonx.Unmarshal(k.data, c) == nil {
			p.Context = c
		}
	}
	p.Detail = detailOf(items, id)
	for _, ref := range p.Event.Open {
		switch ref.Role {
		case schemas.RoleBefore, schemas.RoleAfter, schemas.RoleStep:
		default:
			continue
		}
		b := Body{Name: ref.Name(), Bytes: ref.Bytes, Keep: ref.Keep, Flags: ref.Flags}
		if k := items[place{id, ref.Name()}]; k != nil {
			b.put(k)
		} else {
			b.Missing = true
		}
		p.Bodies = append(p.Bodies, b)
	}
	for n := range p.Event.Invocations {
		v := &p.Event.Invocations[n]
		if result, ok := deferred[v.ID]; ok {
			p.Invocations = append(p.Invocations, result)
			continue
		}
		p.Invocations = append(p.Invocations, Invocation{
			Invocation: *v, Deferred: v.State == schemas.StateDeferred, Ended: time.Time{}, Detail: said(p.Detail, v),
		})
	}
}

// put takes what is kept; a text that was cut ends with a whole character.
func (b *Body) put(k *kept) {
	data := k.data
	b.Truncated = k.truncated
	for n := 1; k.truncated && n < utf8.UTFMax && len(data) > 0; n++ {
		if r, size := utf8.DecodeLastRune(data); r != utf8.RuneError || size != 1 {
			break
		}
		data = data[:len(data)-1]
	}
	if utf8.Valid(data) {
		b.Data = string(data)
	} else {
		b.Raw = k.data
	}
}

func detailOf(items map[place]*kept, event uuid.UUID) *schemas.Detail {
	k := items[place{event, string(schemas.RoleDetail)}]
	if k == nil || len(k.data) == 0 {
		return nil
	}
	d := new(schemas.Detail)
	if jsonx.Unmarshal(k.data, d) != nil {
		return nil
	}
	return d
}

// said returns what an interceptor said, if that is kept.
func said(d *schemas.Detail, v *schemas.Invocation) *schemas.InvocationDetail {
	if d == nil {
		return nil
	}
	for i := range d.Invocations {
		if d.Invocations[i].Order == v.Order && d.Invocations[i].Interceptor == v.Interceptor {
			return &d.Invocations[i]
		}
	}
	return nil
}
