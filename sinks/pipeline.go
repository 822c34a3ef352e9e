package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// Bounds and defaults of a [Pipeline].
const (
	DefaultMaxMessages = 20_000
	DefaultMaxBytes    = 32 << 20
	DefaultLinger      = 250 * time.Millisecond

	chunkMessages = 4096    // one read
	chunkBytes    = 4 << 20 // one read
)

// Options of a [Pipeline]; the zero value of each field is its default.
type Options struct {
	// Log is where alarms go; never a payload. Default: discarded.
	Log *slog.Logger
	// MaxMessages bounds a batch, skipped messages included.
	MaxMessages int
	// MaxBytes bounds the data of a batch; one larger message is a batch of its own.
	MaxBytes int
	// Linger is the least time between the beginnings of two batches that are not full. The first message after a pause
	// is stored at once; under a steady trickle a store gets few large inserts instead of many small ones.
	// Negative means none.
	Linger time.Duration
	// Retry is how reading and dead-lettering are repeated; it should have no limit.
	Retry retry.Policy
}

// Pipeline moves one stream into one sink, in order and by position. It holds at most one batch and two reads of 4 MiB.
type Pipeline struct {
	source  Source
	sink    Sink
	decode  Decoder
	letters DeadLetters
	opts    Options
	stats   counters
}

// Parts are what a pipeline joins; all are required.
type Parts struct {
	Source  Source
	Decode  Decoder
	Sink    Sink
	Letters DeadLetters
}

// NewPipeline joins the parts. opts may be nil.
func NewPipeline(parts Parts, opts *Options) *Pipeline {
	p := &Pipeline{source: parts.Source, sink: parts.Sink, decode: parts.Decode, letters: parts.Letters}
	if opts != nil {
		p.opts = *opts
	}
	if p.opts.Log == nil {
		p.opts.Log = slog.New(slog.DiscardHandler)
	}
	p.opts.Log = p.opts.Log.With(slog.String("stream", parts.Source.Name()))
	if p.opts.MaxMessages <= 0 {
		p.opts.MaxMessages = DefaultMaxMessages
	}
	if p.opts.MaxBytes <= 0 {
		p.opts.MaxBytes = DefaultMaxBytes
	}
	if p.opts.Linger == 0 {
		p.opts.Linger = DefaultLinger
	}
	if p.opts.Retry.Notify == nil {
		p.opts.Retry.Notify = retry.Seldom(func(err error, tries int, pause time.Duration) {
			p.opts.Log.Warn("sink waits for its source or its dead letters", slog.Any("error", err),
				slog.Int("tries", tries), slog.Duration("pause", pause))
		})
	}
	return p
}

// Stats may be called at any time from any goroutine.
func (p *Pipeline) Stats() Stats { return p.stats.get() }

// Run moves messages until ctx ends, then returns nil; what was not stored by then is read again at the next start. It
// returns [ErrConflict] when another consumer took over, and the sink's error when that cannot be repeated. Call it once.
func (p *Pipeline) Run(ctx context.Context) error {
	err := p.run(ctx)
	if ctx.Err() != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotRepeatable) {
		return nil
	}
	return err
}

func (p *Pipeline) run(ctx context.Context) error {
	state, err := p.sink.Resume(ctx, p.source.Name())
	if err != nil {
		return fmt.Errorf("resume %s: %w", p.source.Name(), err)
	}
	p.stats.update(func(s *Stats) { s.Position, s.Read = state.Position, state.Position })
	w := &mover{p: p, state: state, limits: limits{p.opts.MaxMessages, p.opts.MaxBytes}}
	if state.Open != nil {
		if err := w.repeat(ctx, *state.Open); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	chunks := make(chan chunk, 1)
	after := w.state.Position
	group.Go(func() error { // exits when ctx ends or reading fails for good
		defer close(chunks)
		return p.read(ctx, after, chunks)
	})
	group.Go(func() error { // exits when chunks is closed, or the sink stops
		return w.move(ctx, chunks)
	})
	return group.Wait()
}

// read decodes ahead while the sink stores.
func (p *Pipeline) read(ctx context.Context, after uint64, chunks chan<- chunk) error {
	for {
		most := min(chunkMessages, p.opts.MaxMessages)
		entries, err := p.readChunk(ctx, after, most)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			continue
		}
		after = entries[len(entries)-1].Position
		p.stats.update(func(s *Stats) { s.Read = after })
		select {
		case chunks <- newChunk(entries, most):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readChunk reads and decodes what is there; an undecodable entry has neither event nor item, and a note of why.
func (p *Pipeline) readChunk(ctx context.Context, after uint64, most int) ([]Entry, error) {
	var messages []schemas.Message
	err := retry.Do(ctx, p.opts.Retry, func(ctx context.Context) (err error) {
		messages, err = p.source.Read(ctx, after, most, chunkBytes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s after %d: %w", p.source.Name(), after, err)
	}
	entries := make([]Entry, 0, len(messages))
	for _, m := range messages {
		if m.Position <= after { // a source that repeats itself
			continue
		}
		after = m.Position
		e, err := p.decode(m)
		if err != nil {
			e.Event, e.Item, e.failure = nil, nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// put dead-letters until it is done.
func (p *Pipeline) put(ctx context.Context, letter Letter) error {
	letter.Stream = p.source.Name()
	err := retry.Do(ctx, p.opts.Retry, func(ctx context.Context) error { return p.letters.Put(ctx, letter) })
	if err != nil {
		return fmt.Errorf("dead-letter %s at %d: %w", letter.Stream, letter.Position, err)
	}
	p.opts.Log.ErrorContext(ctx, "message went to the dead letters", slog.Uint64("position", letter.Position),
		slog.String("reason", letter.Reason))
	return nil
}
