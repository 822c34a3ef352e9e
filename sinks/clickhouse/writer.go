package clickhouse

import (
	"context"
	"fmt"
	"log/slog"
	"time"
	"uuid"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/sinks"
)

// Content says what a stream holds.
type Content uint8

// The contents of streams.
const (
	ContentEvents Content = iota // sealed events
	ContentOpen                  // open items
)

// Config of a [Writer]. All but the options is required.
type Config struct {
	Name    string // of the sink; part of the cursor's key. Default "clickhouse"
	Content Content
	Source  sinks.Source
	Cursors sinks.Cursors
	Letters sinks.DeadLetters
	Conn    driver.Conn // of a migrated database; stays the caller's
	Options *sinks.Options
	// Sabotage breaks the writer on purpose so that a crash test can show that it notices: "double-insert" inserts
	// without tokens and cuts open ranges anew, "drop-range" marks every tenth batch done without inserting. Never set it.
	Sabotage string
}

// The sabotages.
const (
	sabotageDouble = "double-insert"
	sabotageDrop   = "drop-range"
)

// Writer moves one stream into ClickHouse.
type Writer struct{ pipeline *sinks.Pipeline }

// NewWriter makes the writer of one stream. Nothing is read or written before Run.
func NewWriter(config Config) (*Writer, error) {
	switch config.Sabotage {
	case "", sabotageDouble, sabotageDrop:
	default:
		return nil, fmt.Errorf("sabotage must be %s or %s, not %q", sabotageDouble, sabotageDrop, config.Sabotage)
	}
	sink := newSink(config)
	decode := sinks.DecodeEvent
	if config.Content == ContentOpen {
		decode = sinks.DecodeItem
	}
	return &Writer{pipeline: sinks.NewPipeline(sinks.Parts{
		Source: config.Source, Decode: decode, Sink: sink, Letters: config.Letters,
	}, config.Options)}, nil
}

// Run stores until ctx ends, then returns nil. It waits for ever for an unreachable or failing server, and returns only
// [sinks.ErrConflict] (another writer took over), [sinks.ErrNotRepeatable] or an unreadable cursor.
func (w *Writer) Run(ctx context.Context) error { return w.pipeline.Run(ctx) }

// Stats may be called at any time from any goroutine.
func (w *Writer) Stats() sinks.Stats { return w.pipeline.Stats() }

// sink is the storing side.
type sink struct {
	config   Config
	log      *slog.Logger
	policy   retry.Policy
	stream   string
	cursor   *cursor
	known    *known
	inserter *inserter
	batches  uint64
	entries  []sinks.Entry // of the batch that is being stored
}

func newSink(config Config) *sink {
	if config.Name == "" {
		config.Name = defaultName
	}
	s := &sink{config: config, stream: config.Source.Name(), log: slog.New(slog.DiscardHandler)}
	if config.Options != nil {
		s.policy = config.Options.Retry
		if config.Options.Log != nil {
			s.log = config.Options.Log
		}
	}
	s.log = s.log.With(slog.String("sink", config.Name), slog.String("stream", s.stream))
	if s.policy.Notify == nil {
		s.policy.Notify = retry.Seldom(func(err error, tries int, pause time.Duration) {
			s.log.Warn("waiting for the store", slog.Any("error", err), slog.Int("tries", tries), slog.Duration("pause", pause))
		})
	}
	s.cursor = &cursor{
		store: config.Cursors, key: config.Name + "." + s.stream, policy: s.policy, owner: uuid.NewV7(),
	}
	s.known = &known{conn: config.Conn, open: config.Content == ContentOpen, last: map[uuid.UUID]uint64{}}
	s.inserter = &inserter{
		conn: config.Conn, policy: s.policy, log: s.log, stream: s.stream,
		owned: s.cursor.owned, refused: s.refuse, untokened: config.Sabotage == sabotageDouble,
	}
	return s
}

// Resume implements sinks.Sink.
func (s *sink) Resume(ctx context.Context, _ string) (sinks.State, error) {
	found, err := s.cursor.load(ctx)
	if err != nil {
		return sinks.State{}, err
	}
	p := &s.cursor.progress
	if !found {
		p.Epoch = uuid.NewV4()
		err := retry.Do(ctx, s.policy, func(ctx context.Context) error {
			return s.config.Conn.QueryRow(ctx, "SELECT if(count() = 0, 0, max(leaf) + 1) FROM events WHERE stream = ? AND leaf != ?",
				s.stream, sinks.NoLeaf).Scan(&p.Leaves)
		})
		if err != nil {
			return sinks.State{}, fmt.Errorf("count leaves of %s: %w", s.stream, err)
		}
	}
	state := sinks.State{Position: p.Done, Leaves: p.Leaves, Open: p.Intent}
	s.inserter.again = p.Intent != nil
	if s.config.Sabotage == sabotageDouble {
		state.Open = nil
	}
	return state, nil
}

// Classify implements sinks.Sink.
func (s *sink) Classify(ctx context.Context, _ uint64, entries []sinks.Entry) (verdicts []sinks.Verdict, err error) {
	if s.config.Sabotage == sabotageDouble {
		return make([]sinks.Verdict, len(entries)), nil
	}
	err = retry.Do(ctx, s.policy, func(ctx context.Context) error {
		verdicts, err = s.known.classify(ctx, entries)
		return err
	})
	return verdicts, err
}

// Store implements sinks.Sink.
func (s *sink) Store(ctx context.Context, batch sinks.Batch) error {
	begun := s.cursor.progress
	s.batches++
	dropped := s.config.Sabotage == sabotageDrop && s.batches%10 == 0
	if len(batch.Entries) > 0 && !dropped {
		intent := batch.Range
		begun.Intent = &intent
		// Also for a repetition: it fences off whoever announced the range and may still be alive.
		if err := s.cursor.put(ctx, begun); err != nil {
			return err
		}
		s.entries = batch.Entries
		defer func() { s.entries = nil }()
		blocks, err := s.blocks(ctx, batch.Entries)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			token := fmt.Sprintf("%s:%s:%d-%d:%s", s.stream, begun.Epoch, batch.First, batch.Last, b.table)
			if err := s.inserter.insert(ctx, b, token); err != nil {
				return err
			}
		}
	}
	s.inserter.again = false
	done := s.cursor.progress
	done.Epoch, done.Done, done.Leaves, done.Intent = begun.Epoch, batch.Last, batch.Leaves, nil
	return s.cursor.put(ctx, done)
}

// blocks makes the rows of a batch.
func (s *sink) blocks(ctx context.Context, entries []sinks.Entry) ([]*block, error) {
	if s.config.Content == ContentOpen {
		b := newOpenBlocks(s.stream, entries)
		for i := range entries {
			b.add(&entries[i])
		}
		return b.all(), nil
	}
	var known map[string]bool
	err := retry.Do(ctx, s.policy, func(ctx context.Context) (err error) {
		known, err = s.known.results(ctx, entries)
		return err
	})
	if err != nil {
		return nil, err
	}
	b := newEventBlocks(s.stream, entries)
	for i := range entries {
		b.add(&entries[i], known)
	}
	return b.all(), nil
}

// refuse dead-letters the message that a refused row came from.
func (s *sink) refuse(ctx context.Context, table string, position uint64, cause error) error {
	letter := sinks.Letter{
		Stream: s.stream, Reason: "refused", Table: table, Err: cause, Position: position,
	}
	for i := range s.entries {
		if s.entries[i].Position == position {
			letter.Message = s.entries[i].Message
		}
	}
	return retry.Do(ctx, s.policy, func(ctx context.Context) error { return s.config.Letters.Put(ctx, letter) })
}
