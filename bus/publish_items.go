package bus

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// publishItems sends the open items of a group that are not stored yet, before the events that name them.
func (p *Publisher) publishItems(ctx context.Context, group []schemas.Entry) error {
	var (
		batch []*nats.Msg
		at    []itemAt
		bytes int
	)
	flush := func() error {
		for done := 0; done < len(batch); {
			n := p.open.portion(len(batch) - done)
			last, err := p.open.send(ctx, batch[done:done+n], p.at.itemPos)
			if err != nil {
				return err
			}
			p.placed(at[done:done+n], last)
			p.items.Add(count(n))
			p.batches.Add(1)
			done += n
		}
		batch, at, bytes = batch[:0], at[:0], 0
		return nil
	}
	for i := range group {
		e := &group[i]
		if e.Seq <= p.at.event || e.Seq < p.at.item.seq {
			continue
		}
		place := itemAt{seq: e.Seq}
		for j := range e.Items {
			item := &e.Items[j]
			parts := max(1, (len(item.Data)+PartBytes-1)/PartBytes)
			for part := range parts {
				if place.after(p.at.item) {
					m, err := p.itemMessage(item, place, part, parts)
					if err != nil {
						return err
					}
					n := size(m)
					if len(batch) == p.cfg.MaxBatch || (bytes > 0 && bytes+n > p.cfg.MaxBytes) {
						if err := flush(); err != nil {
							return err
						}
					}
					batch, at, bytes = append(batch, m), append(at, place), bytes+n
				}
				place.part++
			}
		}
	}
	return flush()
}

// placed notes that the messages at were stored, the last of them at position last.
func (p *Publisher) placed(at []itemAt, last uint64) {
	for i, place := range at {
		s := p.at.spans[place.seq]
		s.add(last - count(len(at)-1-i))
		p.at.spans[place.seq] = s
	}
	p.at.item, p.at.itemPos, p.at.itemMax = at[len(at)-1], last, max(p.at.itemMax, last)
}

func (p *Publisher) itemMessage(item *schemas.EntryItem, place itemAt, part, parts int) (*nats.Msg, error) {
	header := item.Header
	if header.Part, header.Parts = part, parts; parts == 1 {
		header.Parts = 0
	}
	text, err := jsonx.Marshal(&header)
	if err != nil {
		return nil, fmt.Errorf("header of item %s of event %d: %w", header.Name(), place.seq, err)
	}
	data := item.Data[part*PartBytes:]
	data = data[:min(len(data), PartBytes)]
	subject := Subject{Shard: p.cfg.Shard, Tenant: p.cfg.Tenant, Writer: p.cfg.Writer, Class: ClassOf(header.Role)}
	return &nats.Msg{
		Subject: subject.String(), Data: data,
		Header: nats.Header{HeaderItem: {string(text)}, HeaderSeq: {number(place.seq)}, HeaderPart: {number(place.part)}},
	}, nil
}

// count converts a number of things, which is never negative.
func count(n int) uint64 { return uint64(max(n, 0)) }

func number(n uint64) string { return strconv.FormatUint(n, 10) }
