package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"uuid"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	// MaxItemBytes bounds one reassembled item, so that a forged header cannot fill the memory.
	MaxItemBytes = 256 << 20

	maxEventItems = 100_000  // messages of the open stream looked through for one event
	getBytes      = 16 << 20 // of one direct get
	fewItems      = 32
	itemsTimeout  = 30 * time.Second
)

// OpenItems returns the open items of an event message, whole and in the order of their parts. Items
// that were erased or trimmed are simply not there: compare with the event's own list. The result is
// limited to what belongs to this event: its writer, number and id. [ErrItems] tells of an item whose
// parts do not fit together, beside the good ones; [ErrHeader] and [ErrSubject] of a message that is
// not an event.
func OpenItems(ctx context.Context, js jetstream.JetStream, m schemas.Message) ([]schemas.EntryItem, error) {
	subject, err := ParseSubject(m.Subject)
	if err != nil {
		return nil, err
	}
	if subject.Class != "" {
		return nil, fmt.Errorf("%w: %.200q is an open item's", ErrSubject, m.Subject)
	}
	var event struct {
		ID   uuid.UUID     `json:"id"`
		Open []jsonx.Value `json:"open"`
	}
	if err := jsonx.Unmarshal(m.Data, &event); err != nil {
		return nil, fmt.Errorf("event at position %d: %w", m.Position, err)
	}
	seq, err := Seq(m.Header)
	if err != nil {
		return nil, fmt.Errorf("event at position %d: %w", m.Position, err)
	}
	a := assembly{writer: subject.Writer, seq: seq, event: event.ID}
	where, err := parseSpan(first(m.Header, HeaderOpen))
	if err != nil && first(m.Header, HeaderOpen) != "" {
		return nil, fmt.Errorf("event at position %d: %w", m.Position, err)
	}
	if err != nil {
		if len(event.Open) == 0 {
			return nil, nil
		}
		// The event names items, but not where they are: look through what its writer sent.
		base, _ := headerNumber(m.Header, headerBase)
		where = span{base + 1, math.MaxUint64}
	}
	ctx, cancel := context.WithTimeout(ctx, itemsTimeout)
	defer cancel()
	filter := writerSubject(openPrefix, subject.Shard, subject.Tenant, subject.Writer) + ">"
	stream := OpenStream(subject.Shard)
	if err := a.fetch(ctx, js, stream, filter, where); err != nil {
		return nil, err
	}
	if items, err := a.result(); where.last == math.MaxUint64 || (err == nil && len(items) == len(event.Open)) {
		return items, err
	}
	fromLeader := assembly{writer: a.writer, seq: a.seq, event: a.event}
	err = getFromLeader(ctx, js, stream, filter, where, func(m schemas.Message) bool { return !fromLeader.take(m) })
	if err != nil {
		return nil, fmt.Errorf("open items at %v: %w", where, err)
	}
	return fromLeader.result()
}

// assembly puts the parts of one event's items together.
type assembly struct {
	writer uuid.UUID
	seq    uint64
	event  uuid.UUID

	order []string
	parts map[string][]part
	bad   error
}

type part struct {
	header schemas.OpenHeader
	data   []byte
}

// fetch gets the writer's messages in the span; those of other writers in between are left out by the server.
func (a *assembly) fetch(ctx context.Context, js jetstream.JetStream, stream, filter string, in span) error {
	if in.last-in.first < fewItems {
		err := getEach(ctx, js, stream, in, func(m schemas.Message) { a.take(m) })
		if err != nil {
			return fmt.Errorf("open items at %v: %w", in, err)
		}
		return nil
	}
	for at, seen := in.first, 0; at <= in.last && seen < maxEventItems; {
		next, past := at, false
		query := getQuery{Seq: at, Filter: filter, Batch: int(min(in.last-at, 999)) + 1, MaxBytes: getBytes}
		err := get(ctx, js, stream, query, func(m schemas.Message) bool {
			past = m.Position > in.last || a.take(m)
			next, seen = m.Position+1, seen+1
			return !past
		})
		if err != nil {
			return fmt.Errorf("open items at %v: %w", in, err)
		}
		if past || next == at {
			return nil
		}
		at = next
	}
	return nil
}

// take keeps a message if it belongs to the event, and tells whether the writer is past the event.
func (a *assembly) take(m schemas.Message) (past bool) {
	h, err := ItemHeader(m.Header)
	if err != nil {
		a.bad = fmt.Errorf("%w: position %d: %w", ErrItems, m.Position, err)
		return false
	}
	if h.Writer != a.writer || h.Seq != a.seq || h.Event != a.event {
		return h.Seq > a.seq
	}
	name := h.Name()
	if a.parts == nil {
		a.parts = map[string][]part{}
	}
	if _, ok := a.parts[name]; !ok {
		a.order = append(a.order, name)
	}
	a.parts[name] = append(a.parts[name], part{h, m.Data})
	return false
}

func (a *assembly) result() ([]schemas.EntryItem, error) {
	var out []schemas.EntryItem
	for _, name := range a.order {
		item, err := join(a.parts[name])
		if err != nil {
			a.bad = fmt.Errorf("%w: %s of event %d: %w", ErrItems, name, a.seq, err)
			continue
		}
		out = append(out, item)
	}
	return out, a.bad
}

// JoinParts makes one item of its parts, which may be in any order; a repeated part must be equal.
// Anything else is [ErrItems].
func JoinParts(parts []schemas.EntryItem) (schemas.EntryItem, error) {
	in := make([]part, len(parts))
	for i := range parts {
		in[i] = part{parts[i].Header, parts[i].Data}
	}
	item, err := join(in)
	if err != nil {
		return item, fmt.Errorf("%w: %w", ErrItems, err)
	}
	return item, nil
}

func join(parts []part) (schemas.EntryItem, error) {
	if len(parts) == 0 {
		return schemas.EntryItem{}, errors.New("no parts")
	}
	header := parts[0].header
	count := max(1, header.Parts)
	if count > MaxItemBytes/PartBytes {
		return schemas.EntryItem{}, fmt.Errorf("%d parts", count)
	}
	whole := make([][]byte, count)
	size := 0
	for _, p := range parts {
		i := p.header.Part
		p.header.Part, header.Part = 0, 0
		switch {
		case p.header != header:
			return schemas.EntryItem{}, errors.New("the parts' headers differ")
		case i < 0 || i >= count:
			return schemas.EntryItem{}, fmt.Errorf("part %d of %d", i, count)
		case whole[i] != nil && string(whole[i]) != string(p.data):
			return schemas.EntryItem{}, fmt.Errorf("part %d is there twice with other content", i)
		case whole[i] == nil:
			whole[i] = append([]byte{}, p.data...)
			size += len(p.data)
		}
	}
	for i := range whole {
		if whole[i] == nil {
			return schemas.EntryItem{}, fmt.Errorf("part %d of %d is missing", i, count)
		}
	}
	header.Parts = 0
	data := make([]byte, 0, size)
	for _, b := range whole {
		data = append(data, b...)
	}
	return schemas.EntryItem{Header: header, Data: data}, nil
}
