package bus

import (
	"context"
	"fmt"
	"math"
	"strings"
	"uuid"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/schemas"
)

// WorkFloor returns the position up to which every deferred consumer of a shard has acknowledged all its
// events, math.MaxUint64 when there is none; a [Floor] has to respect it.
func WorkFloor(ctx context.Context, js jetstream.JetStream, shard int) (uint64, error) {
	stream, err := js.Stream(ctx, EventStream(shard)) // before the consumers: what comes later is not counted as done
	if err != nil {
		return 0, fmt.Errorf("floor of deferred work: %w", err)
	}
	floor, last := uint64(math.MaxUint64), stream.CachedInfo().State.LastSeq
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if !strings.HasPrefix(info.Name, workPrefix) {
			continue
		}
		done := info.AckFloor.Stream
		if info.NumPending == 0 && info.NumAckPending == 0 {
			done = last // the rest is not for this consumer
		}
		floor = min(floor, done)
	}
	if err := list.Err(); err != nil {
		return 0, fmt.Errorf("floor of deferred work: %w", err)
	}
	return floor, nil
}

// OpenFloor translates a floor of the event stream into one of the open stream: the items of the events
// after position event stay. It looks at the next thousand events; that an event waits much longer than
// that behind its items is covered by [TrimConfig.KeepFor].
func OpenFloor(ctx context.Context, js jetstream.JetStream, shard int, event uint64) (uint64, error) {
	stream, err := js.Stream(ctx, OpenStream(shard))
	if err != nil {
		return 0, fmt.Errorf("floor of open items: %w", err)
	}
	floor := stream.CachedInfo().State.LastSeq
	if event == math.MaxUint64 {
		return floor, nil
	}
	query := getQuery{Seq: event + 1, Batch: 1000, MaxBytes: getBytes}
	err = get(ctx, js, EventStream(shard), query, func(m schemas.Message) bool {
		if s, err := parseSpan(first(m.Header, HeaderOpen)); err == nil {
			floor = min(floor, s.first-1)
		} else if n, err := headerNumber(m.Header, headerBase); err == nil {
			floor = min(floor, n)
		}
		return true
	})
	if err != nil {
		return 0, fmt.Errorf("floor of open items: %w", err)
	}
	return floor, nil
}

// StoredQuery asks how many of a writer's events are stored.
type StoredQuery struct {
	Shard  int
	Tenant string
	Writer uuid.UUID
	Most   uint64 // number of the last event known to be published before the positions were read
	Events uint64 // the event stream is stored up to this position; math.MaxUint64: all up to Most is known to be
	Items  uint64 // and the open stream up to this one
}

// StoredSeq returns the number up to which all of a writer's events are stored with their open items, by the positions of
// those that store. A publisher may have been told that events are published which the stream has lost since; they do not
// count until they are there again, so that of a writer without any message in the event stream nothing does.
func StoredSeq(ctx context.Context, js jetstream.JetStream, q StoredQuery) (uint64, error) {
	seq := q.Most
	for _, s := range []struct {
		stream, prefix string
		after          uint64
		number         func(map[string][]string) (uint64, error)
		bounds         bool // what the stream does not have is not stored
	}{
		{EventStream(q.Shard), eventPrefix, q.Events, Seq, true},
		{OpenStream(q.Shard), openPrefix, q.Items, itemSeq, false}, // an event may have no items
	} {
		if s.after == math.MaxUint64 {
			continue
		}
		subjects := writerSubject(s.prefix, q.Shard, q.Tenant, q.Writer) + ">"
		if s.bounds {
			last, err := numberOf(ctx, js, s.stream, getQuery{Last: subjects}, s.number)
			if err != nil {
				return 0, fmt.Errorf("how far events of %s are stored: %w", q.Writer, err)
			}
			seq = min(seq, last)
		}
		// The writer's first message that is not stored yet ends what is.
		next, err := numberOf(ctx, js, s.stream, getQuery{Seq: s.after + 1, Filter: subjects}, s.number)
		if err != nil {
			return 0, fmt.Errorf("how far events of %s are stored: %w", q.Writer, err)
		}
		if next > 0 {
			seq = min(seq, next-1)
		}
	}
	return seq, nil
}

// numberOf returns the number of the event that a message is of or belongs to; 0 when there is no such message. It asks the
// stream's leader: a replica that lags would not have what is not stored yet.
func numberOf(ctx context.Context, js jetstream.JetStream, stream string, query getQuery, number func(map[string][]string) (uint64, error)) (uint64, error) {
	m, err := askLeader(ctx, js, stream, query)
	if err != nil || m == nil {
		return 0, err
	}
	n, err := number(m.Header)
	if err != nil {
		return 0, fmt.Errorf("position %d of %s: %w", m.Sequence, stream, err)
	}
	return n, nil
}

func itemSeq(header map[string][]string) (uint64, error) {
	h, err := ItemHeader(header)
	return h.Seq, err
}
