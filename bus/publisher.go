package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"
	"uuid"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// Journal is what a publisher publishes.
type Journal interface {
	// Read returns the entries after number after, in order, at most most entries and about maxBytes, as many
	// as are there at once; it waits until there is at least one. io.EOF means that the journal is
	// finished: nothing will ever follow.
	Read(ctx context.Context, after uint64, most, maxBytes int) ([]schemas.Entry, error)
	// Published tells that all entries up to seq are stored in the stream.
	Published(seq uint64)
}

// PublisherConfig names the writer whose journal is published.
type PublisherConfig struct {
	Shard  int       // required
	Tenant string    // "" means DefaultTenant
	Writer uuid.UUID // required

	After    uint64        // hint: all up to this number is known to be stored; used when the stream was trimmed
	MaxBatch int           // messages in one atomic batch, 1 to 1000; 0 means 1000
	MaxBytes int           // about the bytes read from the journal at once, and in one batch; 0 means 8 MiB
	Timeout  time.Duration // of one try; 0 means 10 s
	MaxPause time.Duration // between tries; 0 means 1 s
	// Linger is how long to wait for more after a group of few events, so that events that come close
	// together travel together: publishing one by one costs more than the request path itself. 0 means
	// 10 ms, negative not at all.
	Linger time.Duration

	// Sabotage is for tests of the tests only: "ack-early" tells the journal that a group is stored before the
	// server said so, and never sends one group in twenty.
	Sabotage string
}

// PublisherStats counts since the start.
type PublisherStats struct {
	Acked   uint64 // number of the last event known to be stored
	Events  uint64 // stored by this publisher
	Items   uint64 // messages of the open stream stored by this publisher
	Batches uint64 // acknowledged publishes, single messages included
	Retries uint64 // tries that failed
	Resumes uint64 // times the position was asked for
}

// Publisher publishes one writer's journal in order. Exactly one publisher may run for a writer; if two
// do, the server refuses the slower one's messages and nothing is doubled.
type Publisher struct {
	cfg     PublisherConfig
	journal Journal
	log     *slog.Logger

	events, open *lane
	at           position

	groups                                   uint64
	acked, sent, items, batches, tries, asks atomic.Uint64
}

// position is how far a writer's messages are known to be in the streams.
type position struct {
	known   bool   // false: ask first
	asked   bool   // it was asked for at least once
	event   uint64 // number of the last stored event
	eventAt uint64 // position of the writer's last message in the event stream, 0 for none
	item    itemAt // last stored open item
	itemPos uint64 // position of the writer's last message in the open stream, 0 for none
	itemMax uint64 // highest position ever seen of this writer in the open stream
	itemEnd uint64 // where the items of the stored events end in the open stream
	spans   map[uint64]span
}

// itemAt orders the messages of the open stream: event number, then number within the event.
type itemAt struct {
	seq  uint64
	part uint64
}

func (a itemAt) after(b itemAt) bool { return a.seq > b.seq || a.seq == b.seq && a.part > b.part }

// NewPublisher makes a publisher; Run starts it.
func NewPublisher(js jetstream.JetStream, journal Journal, cfg PublisherConfig, log *slog.Logger) (*Publisher, error) {
	switch {
	case cfg.Writer == uuid.Nil():
		return nil, errors.New("publisher: the writer's id is missing")
	case cfg.Shard < 0:
		return nil, fmt.Errorf("publisher: shard %d is negative", cfg.Shard)
	case len(cfg.Tenant) > MaxTenant:
		return nil, fmt.Errorf("publisher: the tenant's name has %d bytes, at most %d", len(cfg.Tenant), MaxTenant)
	case cfg.MaxBatch < 0 || cfg.MaxBatch > maxBatch:
		return nil, fmt.Errorf("publisher: batch of %d messages: 1 to %d", cfg.MaxBatch, maxBatch)
	case cfg.Sabotage != "" && cfg.Sabotage != sabotageAckEarly:
		return nil, fmt.Errorf("publisher: unknown sabotage %q", cfg.Sabotage)
	}
	if cfg.MaxBatch == 0 {
		cfg.MaxBatch = maxBatch
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 8 << 20
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.MaxPause <= 0 {
		cfg.MaxPause = time.Second
	}
	if cfg.Linger == 0 {
		cfg.Linger = 10 * time.Millisecond
	}
	p := &Publisher{cfg: cfg, journal: journal, log: log.With(slog.String("writer", cfg.Writer.String()), slog.Int("shard", cfg.Shard))}
	p.events = &lane{
		js: js, stream: EventStream(cfg.Shard), timeout: cfg.Timeout,
		filter: writerSubject(eventPrefix, cfg.Shard, cfg.Tenant, cfg.Writer) + ">",
	}
	p.open = &lane{
		js: js, stream: OpenStream(cfg.Shard), timeout: cfg.Timeout,
		filter: writerSubject(openPrefix, cfg.Shard, cfg.Tenant, cfg.Writer) + ">",
	}
	p.at = position{event: cfg.After, spans: map[uint64]span{}}
	p.acked.Store(cfg.After)
	return p, nil
}

// Stats may be called at any time.
func (p *Publisher) Stats() PublisherStats {
	return PublisherStats{
		Acked: p.acked.Load(), Events: p.sent.Load(), Items: p.items.Load(), Batches: p.batches.Load(),
		Retries: p.tries.Load(), Resumes: p.asks.Load(),
	}
}

// Run publishes until the journal is finished or ctx ends, and returns nil then; what is not
// acknowledged stays in the journal. Errors of NATS are repeated for ever. It fails with [ErrFork], and
// with an error of the journal other than io.EOF.
func (p *Publisher) Run(ctx context.Context) error {
	err := p.run(ctx)
	if ctx.Err() != nil && !errors.Is(err, ErrFork) {
		return nil
	}
	return err
}

func (p *Publisher) run(ctx context.Context) error {
	for _, l := range []*lane{p.events, p.open} {
		if err := l.open(); err != nil {
			return err
		}
		defer l.close()
	}
	if err := p.persist(ctx, func(ctx context.Context) error { return p.resume(ctx, nil) }); err != nil {
		return err
	}
	p.journal.Published(p.at.event)
	for {
		group, err := p.journal.Read(ctx, p.at.event, p.cfg.MaxBatch, p.cfg.MaxBytes)
		if errors.Is(err, io.EOF) && len(group) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the journal after %d: %w", p.at.event, err)
		}
		if len(group) == 0 {
			continue
		}
		if group[0].Seq > p.at.event+1 {
			p.log.ErrorContext(ctx, "the journal has lost events that are not in the stream",
				slog.Uint64("after", p.at.event), slog.Uint64("next", group[0].Seq))
		}
		if p.groups++; p.cfg.Sabotage == sabotageAckEarly {
			p.journal.Published(group[len(group)-1].Seq)
			if p.groups%20 == 0 {
				p.ackUpTo(group[len(group)-1].Seq)
				continue
			}
		}
		err = p.persist(ctx, func(ctx context.Context) error { return p.publish(ctx, group) })
		if err != nil && !errors.Is(err, errReread) {
			return err
		}
		p.journal.Published(p.at.event) // also when an earlier try had arrived after all
		if p.cfg.Linger > 0 && len(group) < fewEvents {
			retry.Sleep(ctx, p.cfg.Linger)
		}
	}
}

// fewEvents is what a group has fewer of when the publisher keeps up with the writer.
const fewEvents = 64

const sabotageAckEarly = "ack-early"

// persist repeats op until it succeeds, ctx ends, or the error is permanent.
func (p *Publisher) persist(ctx context.Context, op func(context.Context) error) error {
	var warned time.Time
	policy := retry.Policy{
		Initial: min(20*time.Millisecond, p.cfg.MaxPause), Max: p.cfg.MaxPause,
		Notify: func(err error, tries int, _ time.Duration) {
			p.tries.Add(1)
			if now := time.Now(); now.Sub(warned) > 10*time.Second { // at most one line in that time, per outage
				warned = now
				p.log.WarnContext(ctx, "publishing waits", slog.Any("error", err), slog.Int("tries", tries), slog.Uint64("acked", p.at.event))
			}
		},
	}
	return retry.Do(ctx, policy, op)
}

// publish brings a group into the streams, from wherever an earlier try left it.
func (p *Publisher) publish(ctx context.Context, group []schemas.Entry) error {
	err := p.publishOnce(ctx, group)
	if err != nil && ctx.Err() == nil {
		p.at.known = false
	}
	if errors.Is(err, ErrRefused) { // no reason to pause: ask and go on
		if err = p.resume(ctx, group); err == nil {
			err = p.publishOnce(ctx, group)
			p.at.known = p.at.known && err == nil
		}
	}
	return err
}

func (p *Publisher) publishOnce(ctx context.Context, group []schemas.Entry) error {
	if !p.at.known {
		if err := p.resume(ctx, group); err != nil {
			return err
		}
	}
	if err := p.publishItems(ctx, group); err != nil {
		return err
	}
	return p.publishEvents(ctx, group)
}

// publishEvents sends the sealed events of a group that are not stored yet.
func (p *Publisher) publishEvents(ctx context.Context, group []schemas.Entry) error {
	var (
		batch []*nats.Msg
		seqs  []uint64
		ends  []uint64 // where the items up to each event end
		bytes int
	)
	end := p.at.itemEnd
	flush := func() error {
		for done := 0; done < len(batch); {
			n := p.events.portion(len(batch) - done)
			position, err := p.events.send(ctx, batch[done:done+n], p.at.eventAt)
			if err != nil {
				return err
			}
			p.at.eventAt = position
			p.sent.Add(count(n))
			p.batches.Add(1)
			done += n
			p.ackUpTo(seqs[done-1])
			p.at.itemEnd = ends[done-1]
			p.journal.Published(p.at.event)
		}
		batch, seqs, ends, bytes = batch[:0], seqs[:0], ends[:0], 0
		return nil
	}
	for i := range group {
		e := &group[i]
		if e.Seq <= p.at.event {
			continue
		}
		m := p.eventMessage(e, end)
		end = max(end, p.at.spans[e.Seq].last)
		n := size(m)
		if len(batch) == p.cfg.MaxBatch || (bytes > 0 && bytes+n > p.cfg.MaxBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, seqs, ends, bytes = append(batch, m), append(seqs, e.Seq), append(ends, end), bytes+n
	}
	return flush()
}

// eventMessage makes the message of an event; end is where the items of the events before it end.
func (p *Publisher) eventMessage(e *schemas.Entry, end uint64) *nats.Msg {
	header := nats.Header{HeaderHash: {e.Hash.String()}, HeaderSeq: {number(e.Seq)}}
	if s, ok := p.at.spans[e.Seq]; ok {
		header[HeaderOpen] = []string{s.String()}
	} else if end > 0 {
		header[headerBase] = []string{number(end)}
	}
	if trace := traceParent(e.Sealed); trace != "" {
		header[headerTrace] = []string{trace}
	}
	subject := Subject{Shard: p.cfg.Shard, Tenant: p.cfg.Tenant, Writer: p.cfg.Writer, Kind: e.Kind}
	return &nats.Msg{Subject: subject.String(), Header: header, Data: e.Sealed}
}

func (p *Publisher) ackUpTo(seq uint64) {
	if seq-p.at.event > uint64(len(p.at.spans)) {
		maps.DeleteFunc(p.at.spans, func(s uint64, _ span) bool { return s <= seq })
	} else {
		for s := p.at.event + 1; s <= seq; s++ {
			delete(p.at.spans, s)
		}
	}
	p.at.event = seq
	p.acked.Store(seq)
}
