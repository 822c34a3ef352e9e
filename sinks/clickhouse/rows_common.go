package clickhouse

import (
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
)

// place holds the columns that every projection begins with: where a row comes from.
type place struct {
	tenant    *names
	time      instants
	published instants
	stream    *names
	position  numbers
	writer    ids
	seq       numbers
	event     ids
	exchange  ids
	block     *block
}

func newPlace(b *block) place {
	return place{
		block:     b,
		tenant:    nameColumn(b, "tenant"),
		time:      timeColumn(b, "time"),
		published: timeColumn(b, "published"),
		stream:    nameColumn(b, "stream"),
		position:  numberColumn(b, "position"),
		writer:    idColumn(b, "writer"),
		seq:       numberColumn(b, "seq"),
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
	p.published.put(schemas.At(o.entry.Published))
	p.stream.add(o.stream)
	p.position.add(o.entry.Position)
	p.writer.put(writer)
	p.seq.add(seq)
	p.event.put(o.event)
	p.exchange.put(o.exchange)
	p.block.positions = append(p.block.positions, o.entry.Position)
}
