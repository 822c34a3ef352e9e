package clickhouse

import (
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
)

// eventBlocks are the blocks that events become.
type eventBlocks struct {
	stream        string
	events        eventRows
	interceptions interceptionRows
	invocations   invocationRows
	plans         planRows
}

// newEventBlocks makes empty blocks with room for a batch.
func newEventBlocks(stream string, entries []sinks.Entry) *eventBlocks {
	b := &eventBlocks{stream: stream}
	for i := range entries {
		switch event := entries[i].Event; event.Kind {
		case schemas.KindRequest, schemas.KindOutcome:
			b.interceptions.hint++
			fallthrough
		case schemas.KindInvocation:
			b.invocations.hint += len(event.Invocations)
		default:
		}
	}
	b.events.hint = len(entries)
	b.events.init()
	b.interceptions.init()
	b.invocations.init()
	b.plans.init()
	return b
}

// all returns the blocks in the order of their inserts: the sealed bytes first.
func (b *eventBlocks) all() []*block {
	return []*block{&b.events.block, &b.interceptions.block, &b.invocations.block, &b.plans.block}
}

// add appends what an event becomes. Results of deferred work that are named in known are left out of invocations.
func (b *eventBlocks) add(e *sinks.Entry, known map[string]bool) {
	event := e.Event
	o := &origin{stream: b.stream, entry: e, tenant: event.Tenant, time: event.Time, event: event.ID}
	if event.Correlation != nil {
		o.exchange = event.Correlation.Exchange
	}
	b.events.add(o)
	switch event.Kind {
	case schemas.KindRequest, schemas.KindOutcome:
		b.interceptions.add(o)
		b.invocations.add(o, nil)
	case schemas.KindInvocation:
		b.invocations.add(o, known)
	case schemas.KindPlan:
		b.plans.add(o)
	case schemas.KindWriter, schemas.KindGap, schemas.KindAdmin, schemas.KindCheckpoint: // only in events
	}
}

// eventRows is the table of sealed bytes.
type eventRows struct {
	block
	stream    *names
	shard     *values[uint16]
	position  numbers
	writer    ids
	seq       numbers
	hash      hashes
	leaf      numbers
	kind      *names
	event     ids
	exchange  ids
	time      instants
	published instants
	tenant    *names
	raw       blobs
}

func (r *eventRows) init() {
	b := &r.block
	b.table = "events"
	r.stream = nameColumn(b, "stream")
	r.shard = shardColumn(b, "shard")
	r.position = numberColumn(b, "position")
	r.writer = idColumn(b, "writer")
	r.seq = numberColumn(b, "seq")
	r.hash = hashColumn(b, "hash")
	r.leaf = numberColumn(b, "leaf")
	r.kind = nameColumn(b, "kind")
	r.event = idColumn(b, "event_id")
	r.exchange = idColumn(b, "exchange_id")
	r.time = timeColumn(b, "time")
	r.published = timeColumn(b, "published")
	r.tenant = nameColumn(b, "tenant")
	r.raw = blobColumn(b, "raw")
}

func (r *eventRows) add(o *origin) {
	e := o.entry
	r.stream.add(o.stream)
	r.shard.add(e.Shard)
	r.position.add(e.Position)
	r.writer.put(e.Event.Writer)
	r.seq.add(e.Event.Seq)
	r.hash.add(e.Hash[:])
	r.leaf.add(e.Leaf)
	r.kind.add(string(e.Event.Kind))
	r.event.put(e.Event.ID)
	r.exchange.put(o.exchange)
	r.time.put(e.Event.Time)
	r.published.put(schemas.At(e.Published))
	r.tenant.add(o.tenant)
	r.raw.add(e.Data)
	r.positions = append(r.positions, e.Position)
}

// planRows has one row for each change of a plan.
type planRows struct {
	block
	place
	digest  hashes
	server  *names
	entries counts
	plan    blobs
}

func (r *planRows) init() {
	b := &r.block
	b.table = "plans"
	r.place = newPlace(b)
	r.digest = hashColumn(b, "digest")
	r.server = nameColumn(b, "server")
	r.entries = countColumn(b, "entries")
	r.plan = blobColumn(b, "plan")
}

func (r *planRows) add(o *origin) {
	plan := o.entry.Event.Plan
	if plan == nil {
		return
	}
	r.at(o)
	r.digest.add(plan.Digest[:])
	r.server.add(plan.Server)
	r.entries.put(len(plan.Entries))
	r.plan.add(o.entry.Data)
}
