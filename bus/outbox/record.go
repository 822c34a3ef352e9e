package outbox

import (
	"context"
	"fmt"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Sizes from which bytes are not copied into, and buffers not kept in, a scratch.
const (
	externalFrom = 64 << 10
	scratchMax   = 512 << 10
)

// scratch is where a record becomes bytes.
type scratch struct {
	buf      []byte // frames
	external []external
	bodies   []byte // JSON of the events from Correlation on, one after the other
	pending  []pending
}

// external is data that stands between buf[:at] and buf[at:] but is not copied there.
type external struct {
	at   int
	data []byte
}

// pending is one record of a scratch whose event is still to be numbered.
type pending struct {
	rec      *schemas.Record
	bodyFrom int
	bodyTo   int
}

// Record appends rec to the journal and returns when it is durable as its class demands. It fills in
// the identity of the event, rec.Hash, rec.Event.Open and the items' headers; an item without a Ref
// (no policy stage ran) gets a salt and a commitment and is kept in full. It takes over rec.Items
// and their bytes.
//
// An error means that nothing was recorded, except for ErrBroken, after which that is unknown. ctx
// matters only while on_full "block" waits for room: what is written is written. Under on_full
// "shed" a refused request returns nil with rec.Shed set; a record that comes with Shed set and is
// no request is dropped, because its exchange has no place in the journal.
func (o *Outbox) Record(ctx context.Context, rec *schemas.Record) error {
	if rec.Shed && rec.Event.Kind != schemas.KindRequest {
		return nil
	}
	durability, ok := o.cfg.Durability.of(rec.Event.Kind)
	if !ok {
		return fmt.Errorf("record event of kind %q: no such kind", rec.Event.Kind)
	}
	if o.sabotaged(rec) {
		return nil
	}
	s := o.scratch()
	defer o.putScratch(s)
	if err := o.prepare(s, rec); err != nil {
		return err
	}
	for {
		o.mu.Lock()
		room, verdict := o.admit(rec.Event.Kind, s.size())
		if verdict == nil && room == nil {
			break // with mu held
		}
		o.mu.Unlock()
		if room != nil {
			select {
			case <-room:
				continue
			case <-ctx.Done():
				verdict = fmt.Errorf("%w: %w", ErrFull, context.Cause(ctx))
			}
		}
		return o.refuse(rec, verdict)
	}
	err := o.append(s, durability)
	o.mu.Unlock()
	if err != nil {
		return o.refuse(rec, noSpace(err))
	}
	if durability == DurableDisk {
		return o.syncTo(rec.Event.Seq)
	}
	return nil
}

// recordAll appends several records without items, all or nothing. The last words of a closing
// outbox pass too.
func (o *Outbox) recordAll(recs []*schemas.Record, closing bool) error {
	s := o.scratch()
	defer o.putScratch(s)
	for _, rec := range recs {
		if len(rec.Items) > 0 && len(recs) > 1 {
			return fmt.Errorf("record %s: several records at once cannot have items", rec.Event.Kind)
		}
		if err := o.prepare(s, rec); err != nil {
			return err
		}
	}
	o.mu.Lock()
	err := o.broken
	switch {
	case err != nil:
	case o.closing && !closing:
		err = ErrClosed
	default:
		err = noSpace(o.append(s, o.cfg.Durability.Control))
	}
	last := o.seq
	o.mu.Unlock()
	if err == nil && o.cfg.Durability.Control == DurableDisk {
		err = o.syncTo(last)
	}
	return err
}

// prepare does all that needs neither seq nor lock.
func (o *Outbox) prepare(s *scratch, rec *schemas.Record) error {
	e := &rec.Event
	e.Schema, e.Writer, e.Tenant = schemas.Version, o.id, o.cfg.Tenant
	if e.Gateway == "" {
		e.Gateway = o.cfg.Gateway
	}
	if e.ID == (uuid.UUID{}) {
		e.ID = uuid.NewV7()
	}
	e.Open = e.Open[:0]
	for i := range rec.Items {
		it := &rec.Items[i]
		if it.Role != schemas.RoleSnapshot {
			commit(it)
			if cap(e.Open) == 0 {
				e.Open = make([]schemas.OpenRef, 0, len(rec.Items))
			}
			e.Open = append(e.Open, it.Ref)
		}
		if err := s.item(it, o.nonce); err != nil {
			return fmt.Errorf("record %s: %w", e.Kind, err)
		}
	}
	p := pending{rec: rec, bodyFrom: len(s.bodies)}
	var err error
	if s.bodies, err = e.AppendJSONBody(s.bodies); err != nil {
		return fmt.Errorf("record %s: %w", e.Kind, err)
	}
	p.bodyTo = len(s.bodies)
	if n := p.bodyTo - p.bodyFrom; n > MaxSealed {
		return fmt.Errorf("record %s: %w: the sealed part has %d bytes, at most %d", e.Kind, ErrTooLarge, n, MaxSealed)
	}
	s.pending = append(s.pending, p)
	return nil
}

// commit stands in for a policy stage.
func commit(it *schemas.OpenItem) {
	if it.Ref.Role == "" {
		it.Salt = seal.NewSalt()
		it.Keep = schemas.KeepFull
		it.Ref = schemas.OpenRef{
			Role: it.Role, Index: it.Index, Bytes: len(it.Data),
			Commitment: seal.Commit(seal.DomainTrue, it.Salt, it.Data), Keep: schemas.KeepFull,
		}
	}
	if it.Keep == "" {
		it.Keep = it.Ref.Keep
	}
}

func (s *scratch) item(it *schemas.OpenItem, nonce uint32) error {
	var at int
	var err error
	s.buf, at = beginFrame(s.buf)
	if s.buf, err = appendItemPrefix(s.buf, &it.OpenHeader); err != nil {
		return err
	}
	if len(it.Data) < externalFrom {
		s.buf = append(s.buf, it.Data...)
		return endFrame(s.buf, at, frameItem, 0, nonce, nil)
	}
	s.external = append(s.external, external{at: len(s.buf), data: it.Data})
	return endFrame(s.buf, at, frameItem, 0, nonce, it.Data)
}

// size is about what the scratch will take in the journal.
func (s *scratch) size() int64 {
	n := int64(len(s.buf) + len(s.bodies) + len(s.pending)*(eventFixed+frameHeader+512))
	for _, x := range s.external {
		n += int64(len(x.data))
	}
	return n
}

// append numbers, seals and writes what is pending. The caller holds mu.
func (o *Outbox) append(s *scratch, d Durability) error {
	if o.file == nil {
		return ErrClosed
	}
	if o.rotationDue() {
		if err := o.rotate(); err != nil {
			return err
		}
	}
	now := schemas.At(time.Now())
	seq, prev := o.seq, o.prev
	for i := range s.pending {
		p := &s.pending[i]
		e := &p.rec.Event
		seq++
		e.Seq, e.PrevHash, e.Time = seq, prev, now
		flags := byte(0)
		if i < len(s.pending)-1 {
			flags = flagMore
		}
		if err := s.event(p, flags, o.nonce); err != nil {
			return err
		}
		prev = p.rec.Hash
	}
	if err := o.write(s); err != nil {
		o.count.writeErrors++
		return err
	}
	o.seq, o.prev, o.prevTime = seq, prev, now
	seg := &o.segs[len(o.segs)-1]
	seg.last, seg.since = seq, now.Std()
	for i := range s.pending {
		o.settle(s.pending[i].rec)
	}
	if d == DurableDisk {
		o.waitDisk = seq
	}
	if o.waitDisk <= o.synced {
		o.reveal(seq)
	}
	return nil
}

// settle follows what is now journaled.
func (o *Outbox) settle(rec *schemas.Record) {
	e := &rec.Event
	for i := range rec.Items {
		h := &rec.Items[i].OpenHeader
		h.Event, h.Tenant, h.Writer, h.Seq, h.Time, h.Kind = e.ID, e.Tenant, e.Writer, e.Seq, e.Time, e.Kind
		if e.Correlation != nil {
			h.Exchange = e.Correlation.Exchange
		}
	}
	o.exchanges.saw(e)
	o.count.records++
}

// event appends the frame of one event and sets its hash.
func (s *scratch) event(p *pending, flags byte, nonce uint32) error {
	e := &p.rec.Event
	var at int
	var err error
	s.buf, at = beginFrame(s.buf)
	s.buf = appendEventPrefix(s.buf, e, len(p.rec.Items))
	sealed := len(s.buf)
	if s.buf, err = e.AppendJSONHead(s.buf); err != nil {
		return fmt.Errorf("record %s: %w", e.Kind, err)
	}
	s.buf = append(s.buf, s.bodies[p.bodyFrom:p.bodyTo]...)
	p.rec.Hash = seal.Event(s.buf[sealed:])
	copy(s.buf[at+frameHeader+hashAt:], p.rec.Hash[:])
	return endFrame(s.buf, at, frameEvent, flags, nonce, nil)
}

func (o *Outbox) scratch() *scratch {
	s, _ := o.scratches.Get().(*scratch)
	return s
}

func (o *Outbox) putScratch(s *scratch) {
	clear(s.external)
	clear(s.pending)
	s.external, s.pending = s.external[:0], s.pending[:0]
	s.buf, s.bodies = s.buf[:0], s.bodies[:0]
	if cap(s.buf)+cap(s.bodies) <= scratchMax {
		o.scratches.Put(s)
	}
}
