// Package stdout writes sealed events as lines of JSON to a writer such as standard output, for a pipe or an eye.
//
// With cursors it goes on where the last run stopped, at least once: a line that was written just before a crash comes
// again, under the same position. Without, it begins where it is told.
package stdout

import (
	"context"
	"fmt"
	"io"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// Config of a [Sink].
type Config struct {
	Out     io.Writer     // required
	Cursors sinks.Cursors // optional: where the position is kept, under "<name>.<stream>"
	Name    string        // default "stdout"
	After   uint64        // without a kept position: begin after this one
}

// Sink writes one event stream. Use it with a [sinks.Pipeline].
type Sink struct {
	config   Config
	key      string
	revision uint64
	state    state
	buf      []byte
}

type state struct {
	Position uint64        `json:"position"`
	Leaves   uint64        `json:"leaves"`
	Seen     sinks.Tracker `json:"seen"`
}

// New returns a sink that has not written yet.
func New(config Config) *Sink {
	if config.Name == "" {
		config.Name = "stdout"
	}
	return &Sink{config: config, state: state{Position: config.After}}
}

// Resume implements sinks.Sink.
func (s *Sink) Resume(ctx context.Context, stream string) (sinks.State, error) {
	s.key = s.config.Name + "." + stream
	if s.config.Cursors != nil {
		raw, revision, err := s.config.Cursors.Get(ctx, s.key)
		if err != nil {
			return sinks.State{}, fmt.Errorf("read cursor %s: %w", s.key, err)
		}
		if s.revision = revision; len(raw) > 0 {
			if err := jsonx.UnmarshalStrict(raw, &s.state); err != nil {
				return sinks.State{}, fmt.Errorf("cursor %s: %w", s.key, err)
			}
		}
	}
	return sinks.State{Position: s.state.Position, Leaves: s.state.Leaves}, nil
}

// Classify implements sinks.Sink.
func (s *Sink) Classify(_ context.Context, _ uint64, entries []sinks.Entry) ([]sinks.Verdict, error) {
	verdicts := make([]sinks.Verdict, len(entries))
	for i := range entries {
		writer, seq := entries[i].Writer()
		verdicts[i] = s.state.Seen.Seen(writer, seq, entries[i].Hash)
	}
	return verdicts, nil
}

// Store implements sinks.Sink.
func (s *Sink) Store(ctx context.Context, batch sinks.Batch) error {
	s.buf = s.buf[:0]
	for i := range batch.Entries {
		s.buf = batch.Entries[i].AppendLine(s.buf)
	}
	if len(s.buf) > 0 {
		if _, err := s.config.Out.Write(s.buf); err != nil {
			return fmt.Errorf("write lines: %w", err)
		}
	}
	s.state.Position, s.state.Leaves = batch.Last, batch.Leaves
	if s.config.Cursors == nil {
		return nil
	}
	raw, err := jsonx.Marshal(&s.state)
	if err != nil {
		return fmt.Errorf("encode cursor %s: %w", s.key, err)
	}
	if s.revision, err = s.config.Cursors.Put(ctx, s.key, raw, s.revision); err != nil {
		return fmt.Errorf("move cursor %s: %w", s.key, err)
	}
	return nil
}
