package clickhouse

import (
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
)

// place holds the columns that every projection begins with: where a row comes from.
type place struct {
	tenant    *values[string]
	time      instants
	published *values[time.Time]
	stream    *values[string]
	position  *values[uint64]
	writer    ids
	seq       *values[uint64]
	event     ids
	exchange  ids
	block     *block
}

func newPlace(b *block) place {
	return place{
		block:     b,
		tenant:    col[string](b, "tenant"),
		time:      timeColumn(b, "time"),
		published: col[time.Time](b, "published"),
		stream:    col[string](b, "stream"),
		position:  col[uint64](b, "position"),
		writer:    idColumn(b, "writer"),
		seq:       col[uint64](b, "seq"),
		event:     idColumn(b, "event_id"),
		exchange:  idColumn(b, "exchange_id"),
	}
}

// origin is where a row comes from.
type origin struct {
	stream   string
	entry    *sinks.Entry
	tenant   string
	time     schemas.Time
	event    uuid.UUID
	exchange uuid.UUID
}

// at fills the columns of the place for one row.
func (p *place) at(o *origin) {
	writer, seq := o.entry.Writer()
	p.tenant.add(o.tenant)
	p.time.put(o.time)
	p.published.add(o.entry.Published.UTC())
	p.stream.add(o.stream)
	p.position.add(o.entry.Position)
	p.writer.put(writer)
	p.seq.add(seq)
	p.event.put(o.event)
	p.exchange.put(o.exchange)
	p.block.positions = append(p.block.positions, o.entry.Position)
}
