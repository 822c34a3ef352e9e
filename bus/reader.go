package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// ReaderOptions narrows what a reader reads; nil means everything.
type ReaderOptions struct {
	Subjects    []string // only these, wildcards allowed
	HeadersOnly bool     // without the data
}

// Reader reads one stream by position, in the order of the stream, across restarts of the server. It
// satisfies sinks.Source. Not for concurrent use.
//
// Memory: twice what one Read asks for, as the next messages are fetched while the caller works.
type Reader struct {
	js      jetstream.JetStream
	stream  string
	options ReaderOptions
	wait    waitLog

	pull    *pull
	after   uint64 // position of the last message taken from pull
	ordinal uint64 // its number in the consumer
}

// NewReader reads a stream; see [EventStream] and [OpenStream] for the names. Call Close at the end.
func NewReader(js jetstream.JetStream, stream string, options *ReaderOptions, log *slog.Logger) *Reader {
	r := &Reader{js: js, stream: stream, wait: waitLog{log: log.With(slog.String("stream", stream))}}
	if options != nil {
		r.options = *options
	}
	return r
}

// Name is the stream's name.
func (r *Reader) Name() string { return r.stream }

// Read returns the messages after position after, in order, at most maxMessages and about maxBytes of
// data, as many as are there at once; it waits until there is at least one. Positions may have holes.
//
// It ends with ctx, or with [ErrBehind] when the stream ends before the position, which is looked at
// when reading begins there and after each loss of the connection. All else is repeated for ever.
func (r *Reader) Read(ctx context.Context, after uint64, maxMessages, maxBytes int) ([]schemas.Message, error) {
	maxMessages, maxBytes = max(maxMessages, 1), max(maxBytes, 1)
	var out []schemas.Message
	policy := retry.Policy{Initial: 5 * time.Millisecond, Max: time.Second, Notify: func(err error, _ int, _ time.Duration) {
		r.wait.warn(ctx, err)
	}}
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		if r.pull == nil || r.after != after {
			if err := r.open(ctx, after, maxMessages); err != nil {
				return err
			}
		}
		bytes := 0
		err := r.pull.collect(ctx, maxMessages, maxBytes, func(m *nats.Msg, d delivery) (bool, error) {
			if d.ordinal != r.ordinal+1 || d.position <= r.after {
				return false, fmt.Errorf("read %s: message %d of the consumer came after %d: %w", r.stream, d.ordinal, r.ordinal, errPull)
			}
			r.ordinal, r.after = d.ordinal, d.position
			out = append(out, schemas.Message{
				Position: d.position, Subject: m.Subject, Header: m.Header, Data: m.Data, Published: d.published,
			})
			bytes += len(m.Data)
			return len(out) < maxMessages && bytes < maxBytes, nil
		})
		if err != nil && ctx.Err() == nil {
			r.drop()
		}
		if len(out) > 0 {
			if r.pull != nil && r.pull.want == 0 && len(r.pull.in) == 0 && len(out) > 1 {
				_ = r.pull.request(maxMessages, maxBytes) // under load: fetch while the caller works
			}
			return nil
		}
		return err
	})
	return out, err
}

// Close gives the consumer up. The reader may be used again.
func (r *Reader) Close() { r.drop() }

func (r *Reader) open(ctx context.Context, after uint64, maxMessages int) error {
	r.drop()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.stream, err)
	}
	if last := stream.CachedInfo().State.LastSeq; last < after {
		return retry.Permanent(fmt.Errorf("read %s after %d: %w, at %d", r.stream, after, ErrBehind, last))
	}
	name := "chaintrail-read-" + nuid.Next()
	p, err := newPull(r.js, r.stream, name, maxMessages)
	if err != nil {
		return err
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name: name, AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		FilterSubjects: r.options.Subjects, HeadersOnly: r.options.HeadersOnly,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		p.close()
		return fmt.Errorf("read %s: %w", r.stream, err)
	}
	r.pull, r.after, r.ordinal = p, after, 0
	return nil
}

// drop forgets the consumer; the server removes it when it was not used for a while, or at once if it is there.
func (r *Reader) drop() {
	if r.pull == nil {
		return
	}
	r.pull.close()
	if nc := r.js.Conn(); nc.IsConnected() {
		_ = nc.Publish(apiSubject(r.js, "CONSUMER.DELETE."+r.stream+"."+r.pull.consumer), nil)
	}
	r.pull = nil
}

// isGone reports whether the context's end, not NATS, stopped a call.
func isGone(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
