package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// errReread sends the publisher back to its journal: the stream has lost what was acknowledged.
var errReread = errors.New("the stream has lost acknowledged messages")

// resume asks both streams for the writer's last message and takes up from there. group is what is
// being published, nil if nothing.
func (p *Publisher) resume(ctx context.Context, group []schemas.Entry) error {
	p.asks.Add(1)
	before := p.at.event
	event, err := p.events.last(ctx)
	if err != nil {
		return err
	}
	fresh, err := p.resumeEvents(ctx, event, group)
	if err != nil {
		return err
	}
	if err := p.resumeItems(ctx, event, fresh || !p.at.asked); err != nil {
		return err
	}
	p.at.known, p.at.asked = true, true
	if p.at.event < before {
		p.log.ErrorContext(ctx, "the stream has lost acknowledged events: publishing them again",
			slog.Uint64("acked", before), slog.Uint64("found", p.at.event))
		if group != nil {
			return retry.Permanent(errReread)
		}
	}
	return nil
}

// resumeEvents sets the position in the event stream. lost tells that acknowledged events are gone.
func (p *Publisher) resumeEvents(ctx context.Context, last *jetstream.RawStreamMsg, group []schemas.Entry) (lost bool, err error) {
	if last == nil {
		at := p.at.eventAt
		p.at.eventAt = 0
		if p.at.event == 0 || at == 0 {
			return false, nil // nothing was ever published, or only the hint says so
		}
		first, _, err := p.events.state(ctx)
		if err != nil {
			p.at.eventAt = at
			return false, err
		}
		if at < first {
			return false, nil // trimmed: every required reader has it
		}
		p.setBack(0)
		return true, nil
	}
	seq, err := Seq(last.Header)
	if err != nil {
		return false, fmt.Errorf("last message in %s, position %d: %w", p.events.stream, last.Sequence, err)
	}
	for i := range group {
		if group[i].Seq == seq && group[i].Hash != seal.Event(last.Data) {
			return false, retry.Permanent(fmt.Errorf("event %d of writer %s, position %d of %s: %w",
				seq, p.cfg.Writer, last.Sequence, p.events.stream, ErrFork))
		}
	}
	p.at.eventAt = last.Sequence
	if seq < p.at.event {
		p.setBack(seq)
		return true, nil
	}
	p.ackUpTo(seq)
	return false, nil
}

func (p *Publisher) setBack(seq uint64) {
	p.at.event = seq
	p.acked.Store(seq)
}

// resumeItems sets the position in the open stream, and finds where the items of unpublished events lie.
// event is the writer's last event in the stream; fresh: what is known of positions does not count.
func (p *Publisher) resumeItems(ctx context.Context, event *jetstream.RawStreamMsg, fresh bool) error {
	last, err := p.open.last(ctx)
	if err != nil {
		return err
	}
	_, end, err := p.open.state(ctx)
	if err != nil {
		return err
	}
	if p.at.itemMax > end { // the server lost the end of the open stream
		p.at.item, p.at.itemMax, fresh = itemAt{}, 0, true
	}
	if event != nil || fresh {
		p.at.itemEnd = itemsEnd(event)
	}
	base := p.at.itemMax
	if fresh {
		base = p.at.itemEnd
		clear(p.at.spans)
	}
	if last == nil {
		p.at.itemPos = 0 // none yet, or all trimmed or erased: what was acknowledged is not sent again
		return nil
	}
	place, err := placeOf(last.Header)
	if err != nil {
		return fmt.Errorf("last message in %s, position %d: %w", p.open.stream, last.Sequence, err)
	}
	p.at.itemPos = last.Sequence
	if place.seq > p.at.event && last.Sequence > base {
		if err := p.findItems(ctx, base, last.Sequence); err != nil {
			return err
		}
	}
	p.at.itemMax = max(p.at.itemMax, last.Sequence)
	if place.after(p.at.item) {
		p.at.item = place
	}
	return nil
}

// itemsEnd returns a position before the items of all events after this one.
func itemsEnd(event *jetstream.RawStreamMsg) uint64 {
	if event == nil {
		return 0
	}
	if s, err := parseSpan(first(event.Header, HeaderOpen)); err == nil {
		return s.last
	}
	n, err := headerNumber(event.Header, headerBase)
	if err != nil {
		return 0
	}
	return n
}

func placeOf(header map[string][]string) (itemAt, error) {
	seq, err := headerNumber(header, HeaderSeq)
	if err != nil {
		return itemAt{}, err
	}
	part, err := headerNumber(header, HeaderPart)
	return itemAt{seq, part}, err
}

// findItems notes the positions of the writer's open items after position base, up to last.
func (p *Publisher) findItems(ctx context.Context, base, last uint64) error {
	r := NewReader(p.open.js, p.open.stream, &ReaderOptions{Subjects: []string{p.open.filter}, HeadersOnly: true}, p.log)
	defer r.Close()
	// The last message might be erased meanwhile, and then nothing would come.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for base < last {
		msgs, err := r.Read(ctx, base, 5000, 4<<20)
		if err != nil {
			return errors.New("find open items: " + err.Error()) // of no class: ask again
		}
		for _, m := range msgs {
			base = m.Position
			place, err := placeOf(m.Header)
			if err != nil {
				return fmt.Errorf("position %d of %s: %w", m.Position, p.open.stream, err)
			}
			if place.seq > p.at.event {
				s := p.at.spans[place.seq]
				s.add(m.Position)
				p.at.spans[place.seq] = s
			}
		}
	}
	return nil
}
