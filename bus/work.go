package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// WorkConfig describes one interceptor's share of the deferred work of a shard.
type WorkConfig struct {
	Name  string         // required: of the interceptor, unique in the deployment; the durable consumer is named for it
	Shard int            // required
	Kinds []schemas.Kind // nil means request and outcome events

	After      uint64        // where a new consumer begins: after this position; an existing one goes on where it was
	OnlyNew    bool          // a new consumer begins with what is published from now on
	MaxPending int           // jobs handed out and not yet acknowledged, over all processes; 0 means 256
	Prefetch   int           // jobs fetched ahead by this process; 0 means 16; their AckWait runs
	AckWait    time.Duration // without Ack, Nak or InProgress for that long, a job is handed out again; 0 means 30 s
}

// Work hands out the events that a deferred interceptor has to see, at least once each, until they are
// acknowledged. Several processes with one name share the work. Next is not for concurrent use; the
// methods of a [Job] are.
type Work struct {
	js     jetstream.JetStream
	cfg    WorkConfig
	stream string
	name   string
	wait   waitLog
	pull   *pull
}

// Job is one event to work on.
type Job struct {
	Message    schemas.Message
	Deliveries int // 1 for the first time

	nc    *nats.Conn
	reply string
	over  uint64 // reconnects of nc when it was handed out
}

// ackTimeout is long for a server that knows the job, which is all that Ack waits for.
const ackTimeout = 5 * time.Second

const (
	workPrefix  = "chaintrail-work-"
	maxWorkName = 200 // bytes, encoded; the server's limit is 255
)

// NewWork describes the work; the durable consumer is made by the first Next. Call Close at the end.
func NewWork(js jetstream.JetStream, cfg WorkConfig, log *slog.Logger) (*Work, error) {
	name := workPrefix + EncodeToken(cfg.Name)
	switch {
	case cfg.Name == "":
		return nil, errors.New("deferred work: the interceptor's name is missing")
	case len(name) > maxWorkName:
		return nil, fmt.Errorf("deferred work: the name %.40q… is too long", cfg.Name)
	case cfg.Shard < 0 || cfg.MaxPending < 0 || cfg.Prefetch < 0 || cfg.AckWait < 0:
		return nil, fmt.Errorf("deferred work of %q: a negative setting", cfg.Name)
	}
	if len(cfg.Kinds) == 0 {
		cfg.Kinds = []schemas.Kind{schemas.KindRequest, schemas.KindOutcome}
	}
	if cfg.MaxPending == 0 {
		cfg.MaxPending = 256
	}
	if cfg.Prefetch == 0 {
		cfg.Prefetch = 16
	}
	cfg.Prefetch = min(cfg.Prefetch, cfg.MaxPending)
	if cfg.AckWait == 0 {
		cfg.AckWait = 30 * time.Second
	}
	stream := EventStream(cfg.Shard)
	return &Work{
		js: js, cfg: cfg, stream: stream, name: name,
		wait: waitLog{log: log.With(slog.String("interceptor", cfg.Name), slog.String("stream", stream))},
	}, nil
}

// Next waits for a job. It ends with ctx only; while NATS is away it repeats.
func (w *Work) Next(ctx context.Context) (job Job, err error) {
	policy := retry.Policy{Initial: 5 * time.Millisecond, Max: time.Second, Notify: func(err error, _ int, _ time.Duration) {
		w.wait.warn(ctx, err)
	}}
	err = retry.Do(ctx, policy, func(ctx context.Context) error {
		if w.pull == nil {
			if err := w.open(ctx); err != nil {
				return err
			}
		}
		err := w.pull.collect(ctx, w.cfg.Prefetch, 0, func(m *nats.Msg, d delivery) (bool, error) {
			job = Job{
				Message: schemas.Message{
					Position: d.position, Subject: m.Subject, Header: m.Header, Data: m.Data, Published: d.published,
				},
				Deliveries: int(min(d.tries, math.MaxInt32)), nc: w.js.Conn(), reply: m.Reply, over: w.js.Conn().Stats().Reconnects,
			}
			return false, nil
		})
		if err != nil && ctx.Err() == nil {
			w.drop()
		}
		return err
	})
	return job, err
}

// Close gives back what was fetched ahead. Jobs handed out keep working.
func (w *Work) Close() { w.drop() }

func (w *Work) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cfg := jetstream.ConsumerConfig{
		Durable: w.name, Description: "deferred work of " + EncodeToken(w.cfg.Name),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: w.cfg.AckWait,
		MaxDeliver: -1, MaxAckPending: w.cfg.MaxPending,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: w.cfg.After + 1,
	}
	if w.cfg.OnlyNew {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverNewPolicy, 0
	}
	for _, kind := range w.cfg.Kinds {
		cfg.FilterSubjects = append(cfg.FilterSubjects,
			eventPrefix+"."+strconv.Itoa(w.cfg.Shard)+".*.*."+EncodeToken(string(kind)))
	}
	switch old, err := w.js.Consumer(ctx, w.stream, w.name); {
	case err == nil: // where it began cannot be changed, and does not matter any more
		was := old.CachedInfo().Config
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = was.DeliverPolicy, was.OptStartSeq, was.OptStartTime
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return fmt.Errorf("consumer %s: %w", w.name, err)
	}
	if _, err := w.js.CreateOrUpdateConsumer(ctx, w.stream, cfg); err != nil {
		return fmt.Errorf("consumer %s: %w", w.name, err)
	}
	var err error
	w.pull, err = newPull(w.js, w.stream, w.name, w.cfg.Prefetch)
	return err
}

func (w *Work) drop() {
	if w.pull == nil {
		return
	}
	w.pull.close()
	for m := w.pull.ready(); m != nil; m = w.pull.ready() {
		if m.Reply != "" && w.js.Conn().IsConnected() {
			_ = w.js.Conn().Publish(m.Reply, []byte("-NAK"))
		}
	}
	w.pull = nil
}

// Ack returns when the server has noted that the job is done. After an error the job may be handed out again, and after
// a reconnect too: a server that was killed may have forgotten that it handed it out, and then never answers, so there
// is nothing to wait for.
func (j Job) Ack(ctx context.Context) error {
	if j.nc.Stats().Reconnects != j.over {
		if err := j.nc.Publish(j.reply, []byte("+ACK")); err != nil {
			return fmt.Errorf("acknowledge position %d: %w", j.Message.Position, err)
		}
		return nil
	}
	if _, err := call(ctx, j.nc, &nats.Msg{Subject: j.reply, Data: []byte("+ACK")}, ackTimeout); err != nil {
		return fmt.Errorf("acknowledge position %d: %w", j.Message.Position, err)
	}
	return nil
}

// Nak asks for the job to be handed out again, not before delay has passed.
func (j Job) Nak(delay time.Duration) error {
	body := []byte(`-NAK {"delay":` + strconv.FormatInt(max(delay, 0).Nanoseconds(), 10) + `}`)
	if delay <= 0 {
		body = []byte("-NAK")
	}
	if err := j.nc.Publish(j.reply, body); err != nil {
		return fmt.Errorf("give back position %d: %w", j.Message.Position, err)
	}
	return nil
}

// InProgress starts the job's AckWait anew; call it well within that time while working.
func (j Job) InProgress() error {
	if err := j.nc.Publish(j.reply, []byte("+WPI")); err != nil {
		return fmt.Errorf("in progress at position %d: %w", j.Message.Position, err)
	}
	return nil
}
