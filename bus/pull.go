package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	pullHeartbeat = 5 * time.Second  // the server says that it lives, when it has no messages
	pullExpires   = 60 * time.Second // then a request ends and is made again
	pullLinger    = 100 * time.Millisecond

	statusHeartbeat = "100"
	statusConflict  = "409"
)

// errPull ends a pull; the consumer may be gone: make it again.
var errPull = errors.New("the consumer gives no messages")

// pull takes messages from one consumer, with at most one request under way, so that no more than that
// request asked for is ever in memory. Not for concurrent use.
type pull struct {
	js       jetstream.JetStream
	stream   string
	consumer string
	sub      *nats.Subscription
	in       chan *nats.Msg // never full: it has room for the request and its heartbeats
	states   chan nats.Status

	want      int    // messages that the request under way may still bring; 0: none is under way
	got       int    // messages that it brought
	oversized bool   // the next message alone is larger than the bound: ask for just that one
	pending   uint64 // messages that the server had beyond the last one
}

func newPull(js jetstream.JetStream, stream, consumer string, maxMessages int) (*pull, error) {
	p := &pull{js: js, stream: stream, consumer: consumer, in: make(chan *nats.Msg, maxMessages+64)}
	var err error
	if p.sub, err = js.Conn().ChanSubscribe(nats.NewInbox(), p.in); err != nil {
		return nil, fmt.Errorf("read %s: %w", stream, err)
	}
	p.states = watch(js.Conn())
	return p, nil
}

func (p *pull) close() {
	_ = p.sub.Unsubscribe()
	p.js.Conn().RemoveStatusListener(p.states)
}

// request asks for messages; the answers come in by themselves.
func (p *pull) request(maxMessages, maxBytes int) error {
	batch := max(1, min(maxMessages, cap(p.in)-64))
	if p.oversized {
		batch, maxBytes, p.oversized = 1, 0, false
	}
	query := struct {
		Batch     int   `json:"batch"`
		MaxBytes  int   `json:"max_bytes,omitzero"`
		Expires   int64 `json:"expires"`
		Heartbeat int64 `json:"idle_heartbeat"`
	}{batch, maxBytes, pullExpires.Nanoseconds(), pullHeartbeat.Nanoseconds()}
	body, err := jsonx.Marshal(query)
	if err != nil {
		return fmt.Errorf("read %s: %w", p.stream, err)
	}
	subject := apiSubject(p.js, "CONSUMER.MSG.NEXT."+p.stream+"."+p.consumer)
	if err := p.js.Conn().PublishRequest(subject, p.sub.Subject, body); err != nil {
		return fmt.Errorf("read %s: %w", p.stream, err)
	}
	p.want, p.got = batch, 0
	return nil
}

// collect calls take for each message that is there, at least one, until take has had enough or, when
// it had some, until no more comes at once. It makes requests as needed. An error after the first
// message leaves what was taken valid.
func (p *pull) collect(ctx context.Context, maxMessages, maxBytes int, take func(*nats.Msg, delivery) (more bool, err error)) error {
	timer := time.NewTimer(2*pullHeartbeat + pullLinger)
	defer timer.Stop()
	for taken := 0; ; {
		m := p.ready()
		if m == nil {
			if p.want == 0 && taken > 0 {
				return nil
			}
			if p.want == 0 {
				if err := p.request(maxMessages, maxBytes); err != nil {
					return err
				}
			}
			patience := 2*pullHeartbeat + pullLinger
			if taken > 0 {
				if p.pending == 0 {
					return nil
				}
				patience = pullLinger // the server is about to send more
			}
			timer.Reset(patience)
			select {
			case m = <-p.in:
			case <-p.states:
				return fmt.Errorf("read %s: %w", p.stream, errCut)
			case <-ctx.Done():
				return fmt.Errorf("read %s: %w", p.stream, context.Cause(ctx))
			case <-timer.C:
				if taken > 0 {
					return nil
				}
				return fmt.Errorf("read %s: no sign of life: %w", p.stream, errPull)
			}
		}
		if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 {
			if err := p.status(status, m.Header.Get("Description")); err != nil {
				return err
			}
			continue
		}
		d, err := parseDelivery(m.Reply)
		if err != nil {
			return fmt.Errorf("read %s: %w", p.stream, err)
		}
		p.want, p.got, p.pending, taken = max(0, p.want-1), p.got+1, d.pending, taken+1
		if more, err := take(m, d); err != nil || !more {
			return err
		}
	}
}

func (p *pull) ready() *nats.Msg {
	select {
	case m := <-p.in:
		return m
	default:
		return nil
	}
}

func (p *pull) status(status, description string) error {
	switch {
	case status == statusHeartbeat:
		return nil
	case status == statusConflict && strings.HasPrefix(description, "Message Size Exceeds MaxBytes"):
		p.oversized = p.got == 0
		p.want = 0
		return nil
	case status == statusConflict && strings.HasPrefix(description, "Batch Completed"), status == "404", status == "408":
		p.want = 0
		return nil
	}
	return fmt.Errorf("read %s: status %s %.100q: %w", p.stream, status, description, errPull)
}

// delivery is what the server says about a message in its reply subject.
type delivery struct {
	tries     uint64
	position  uint64
	ordinal   uint64 // in the consumer
	published time.Time
	pending   uint64
}

// parseDelivery reads $JS.ACK[.<domain>.<account>].<stream>.<consumer>.<tries>.<position>.<ordinal>.<time>.<pending>.
func parseDelivery(reply string) (delivery, error) {
	tokens := strings.Split(reply, ".")
	if len(tokens) < 9 || len(tokens) == 10 || tokens[0] != "$JS" || tokens[1] != "ACK" {
		return delivery{}, fmt.Errorf("%w: reply subject %.200q", ErrHeader, reply)
	}
	numbers := tokens[4:9]
	if len(tokens) > 10 {
		numbers = tokens[6:11]
	}
	var n [5]uint64
	for i, token := range numbers {
		var err error
		if n[i], err = strconv.ParseUint(token, 10, 64); err != nil {
			return delivery{}, fmt.Errorf("%w: reply subject %.200q", ErrHeader, reply)
		}
	}
	return delivery{tries: n[0], position: n[1], ordinal: n[2], published: time.Unix(0, int64(min(n[3], math.MaxInt64))).UTC(), pending: n[4]}, nil
}

// waitLog says at most once in ten seconds that something waits.
type waitLog struct {
	log  *slog.Logger
	said time.Time
}

func (w *waitLog) warn(ctx context.Context, err error) {
	if now := time.Now(); now.Sub(w.said) > 10*time.Second {
		w.said = now
		w.log.WarnContext(ctx, "reading waits", slog.Any("error", err))
	}
}
