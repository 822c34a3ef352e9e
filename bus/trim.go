package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// TrimConfig says what of the streams stays although everybody has it. User-set, but for Streams.
type TrimConfig struct {
	Streams []string      `yaml:"-"`
	Every   time.Duration `yaml:"every"`         // between two looks
	Keep    uint64        `yaml:"keep_messages"` // the newest messages that stay
	KeepFor time.Duration `yaml:"keep_for"`      // messages younger than this stay
}

// DefaultTrimConfig keeps ten minutes, as the journals do: a publisher that was cut off for less than
// that finds its last message again.
func DefaultTrimConfig() TrimConfig {
	return TrimConfig{Every: 30 * time.Second, Keep: 1000, KeepFor: 10 * time.Minute}
}

// Validate names the first setting that cannot work.
func (c TrimConfig) Validate() error {
	switch {
	case c.Every <= 0:
		return fmt.Errorf("trim.every is %v: must be positive", c.Every)
	case c.KeepFor < 0:
		return fmt.Errorf("trim.keep_for is %v: must not be negative", c.KeepFor)
	}
	return nil
}

// Floor tells up to which position a stream is not needed any more: the lowest of what every required
// reader has stored, what is sealed, and every hold. An error, as every doubt, means: keep.
type Floor func(ctx context.Context, stream string) (uint64, error)

// OnTrim records a trim before it is done; an error prevents it. After a crash in between, the same
// range is recorded again.
type OnTrim func(ctx context.Context, stream string, first, last uint64) error

// Trimmer frees what nobody needs any more. One per deployment is enough; several do no harm.
type Trimmer struct {
	js      jetstream.JetStream
	cfg     TrimConfig
	floor   Floor
	onTrim  OnTrim
	log     *slog.Logger
	trimmed atomic.Uint64
}

// NewTrimmer makes a trimmer; Run starts it.
func NewTrimmer(js jetstream.JetStream, cfg TrimConfig, floor Floor, onTrim OnTrim, log *slog.Logger) (*Trimmer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if floor == nil || onTrim == nil {
		return nil, errors.New("trimmer: floor and record are required")
	}
	return &Trimmer{js: js, cfg: cfg, floor: floor, onTrim: onTrim, log: log}, nil
}

// Trimmed returns how many positions were freed since the start.
func (t *Trimmer) Trimmed() uint64 { return t.trimmed.Load() }

// Run trims every stream again and again until ctx ends; errors are logged and tried again.
func (t *Trimmer) Run(ctx context.Context) error {
	for {
		for _, stream := range t.cfg.Streams {
			if _, _, err := t.Trim(ctx, stream); err != nil && !isGone(ctx, err) {
				t.log.WarnContext(ctx, "trimming waits", slog.String("stream", stream), slog.Any("error", err))
			}
		}
		if !retry.Sleep(ctx, t.cfg.Every) {
			return nil
		}
	}
}

// Trim frees what can be freed of one stream now and returns the range; 0, 0 when there is none.
func (t *Trimmer) Trim(ctx context.Context, name string) (first, last uint64, err error) {
	stream, err := t.js.Stream(ctx, name)
	if err != nil {
		return 0, 0, fmt.Errorf("trim %s: %w", name, err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 || state.LastSeq <= t.cfg.Keep {
		return 0, 0, nil
	}
	last, err = t.floor(ctx, name)
	if err != nil {
		return 0, 0, fmt.Errorf("trim %s: what is still needed: %w", name, err)
	}
	last = min(last, state.LastSeq-t.cfg.Keep)
	if last >= state.FirstSeq && t.cfg.KeepFor > 0 {
		young, err := t.youngest(ctx, name, state.LastSeq)
		if err != nil {
			return 0, 0, fmt.Errorf("trim %s: %w", name, err)
		}
		last = min(last, young-1)
	}
	if last < state.FirstSeq {
		return 0, 0, nil
	}
	if err := t.onTrim(ctx, name, state.FirstSeq, last); err != nil {
		return 0, 0, fmt.Errorf("trim %s: record %d-%d: %w", name, state.FirstSeq, last, err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(last+1)); err != nil {
		return 0, 0, fmt.Errorf("trim %s: %w", name, err)
	}
	t.trimmed.Add(last - state.FirstSeq + 1)
	t.log.InfoContext(ctx, "stream trimmed", slog.String("stream", name), slog.Uint64("first", state.FirstSeq), slog.Uint64("last", last))
	return state.FirstSeq, last, nil
}

// youngest returns the position of the first message that is younger than KeepFor, or the one after the last.
func (t *Trimmer) youngest(ctx context.Context, name string, last uint64) (uint64, error) {
	begin, first := time.Now().Add(-t.cfg.KeepFor), last+1
	err := get(ctx, t.js, name, getQuery{StartTime: &begin, Batch: 1}, func(m schemas.Message) bool {
		first = m.Position
		return false
	})
	if err != nil {
		return 0, fmt.Errorf("first message of the last %v: %w", t.cfg.KeepFor, err)
	}
	return first, nil
}
