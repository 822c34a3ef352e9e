package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// TransientFor is how long a transient open item lives at most.
const TransientFor = time.Hour

// SecureDelete removes one message and overwrites its bytes on the server's disk. A message that is
// gone already is no error.
func SecureDelete(ctx context.Context, js jetstream.JetStream, stream string, position uint64) error {
	s, err := js.Stream(ctx, stream)
	if err == nil {
		err = secureDelete(ctx, s, position)
	}
	if err != nil {
		return fmt.Errorf("delete position %d of %s: %w", position, stream, err)
	}
	return nil
}

func secureDelete(ctx context.Context, stream jetstream.Stream, position uint64) error {
	err := stream.SecureDeleteMsg(ctx, position)
	if err == nil {
		return nil
	}
	// The server's error does not tell a message that is gone from one that it could not remove.
	if _, getErr := stream.GetMsg(ctx, position); errors.Is(getErr, jetstream.ErrMsgNotFound) {
		return nil
	}
	return err
}

// Sweeper deletes transient open items whose time is over. One per deployment is enough; several do no harm.
type Sweeper struct {
	js     jetstream.JetStream
	shards []int
	keep   time.Duration
	log    *slog.Logger
	swept  atomic.Uint64
}

// NewSweeper makes a sweeper; Run starts it. keep 0 means [TransientFor].
func NewSweeper(js jetstream.JetStream, shards []int, keep time.Duration, log *slog.Logger) *Sweeper {
	if keep <= 0 {
		keep = TransientFor
	}
	return &Sweeper{js: js, shards: shards, keep: keep, log: log}
}

// Swept returns how many messages were deleted since the start.
func (s *Sweeper) Swept() uint64 { return s.swept.Load() }

// Run sweeps each minute until ctx ends; errors are logged and tried again.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		for _, shard := range s.shards {
			if _, err := s.Sweep(ctx, shard); err != nil && !isGone(ctx, err) {
				s.log.WarnContext(ctx, "sweeping waits", slog.Int("shard", shard), slog.Any("error", err))
			}
		}
		if !retry.Sleep(ctx, min(time.Minute, s.keep)) {
			return nil
		}
	}
}

// Sweep deletes what is due in one shard and returns how many messages that were.
func (s *Sweeper) Sweep(ctx context.Context, shard int) (deleted int, err error) {
	name := OpenStream(shard)
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("sweep %s: %w", name, err)
	}
	filter := openPrefix + "." + strconv.Itoa(shard) + ".*.*." + string(ClassTransient)
	cutoff := time.Now().Add(-s.keep)
	for {
		due, err := s.due(ctx, name, filter, cutoff)
		if err != nil || len(due) == 0 {
			return deleted, err
		}
		for _, position := range due {
			if err := secureDelete(ctx, stream, position); err != nil {
				return deleted, fmt.Errorf("sweep %s: position %d: %w", name, position, err)
			}
			deleted++
			s.swept.Add(1)
		}
	}
}

// due returns the oldest transient messages from before cutoff.
func (s *Sweeper) due(ctx context.Context, name, filter string, cutoff time.Time) ([]uint64, error) {
	var due []uint64
	query := getQuery{Seq: 1, Filter: filter, Batch: 200, MaxBytes: getBytes}
	err := get(ctx, s.js, name, query, func(m schemas.Message) bool {
		if !m.Published.Before(cutoff) {
			return false
		}
		due = append(due, m.Position)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return due, nil
}
