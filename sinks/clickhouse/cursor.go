package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"uuid"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// defaultName is what a writer is called that has no other name.
const defaultName = "clickhouse"

// progress is the value of a cursor.
type progress struct {
	// Epoch is drawn when the cursor is made. It is part of each token, so that a new stream under an old name, whose
	// positions begin again, does not meet the tokens of the old one.
	Epoch  uuid.UUID    `json:"epoch"`
	Owner  uuid.UUID    `json:"owner"` // one start of a writer
	Step   uint64       `json:"step"`  // makes each value of an owner another one
	Done   uint64       `json:"done"`  // stored or dead-lettered up to this position
	Leaves uint64       `json:"leaves"`
	Intent *sinks.Range `json:"intent,omitzero"` // what comes next, begun
}

// cursor is a writer's hold on its place in a stream.
type cursor struct {
	store    sinks.Cursors
	key      string
	policy   retry.Policy
	owner    uuid.UUID
	revision uint64
	progress progress
}

// load reads the cursor; found is false when there was none.
func (c *cursor) load(ctx context.Context) (found bool, err error) {
	var raw []byte
	err = retry.Do(ctx, c.policy, func(ctx context.Context) (err error) {
		raw, c.revision, err = c.store.Get(ctx, c.key)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read cursor %s: %w", c.key, err)
	}
	if len(raw) == 0 {
		return false, nil
	}
	if err := jsonx.UnmarshalStrict(raw, &c.progress); err != nil {
		return false, fmt.Errorf("cursor %s does not hold what this version writes: %w", c.key, err)
	}
	return true, nil
}

// put moves the cursor. When the outcome of a try is not known, the value that is found tells whether it was ours.
func (c *cursor) put(ctx context.Context, next progress) error {
	next.Owner, next.Step = c.owner, c.progress.Step+1
	raw, err := jsonx.Marshal(&next)
	if err != nil {
		return fmt.Errorf("encode cursor %s: %w", c.key, err)
	}
	err = retry.Do(ctx, c.policy, func(ctx context.Context) error {
		revision, err := c.store.Put(ctx, c.key, raw, c.revision)
		if errors.Is(err, sinks.ErrConflict) {
			found, at, getErr := c.store.Get(ctx, c.key)
			switch {
			case getErr != nil:
				return getErr
			case bytes.Equal(found, raw): // an earlier try of ours went through
				revision, err = at, nil
			default:
				return retry.Permanent(err)
			}
		}
		if err == nil {
			c.revision = revision
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("move cursor %s: %w", c.key, err)
	}
	c.progress = next
	return nil
}

// owned returns ErrConflict when someone else moved the cursor.
func (c *cursor) owned(ctx context.Context) error {
	_, revision, err := c.store.Get(ctx, c.key)
	if err != nil {
		return fmt.Errorf("read cursor %s: %w", c.key, err)
	}
	if revision != c.revision {
		return fmt.Errorf("cursor %s: %w", c.key, sinks.ErrConflict)
	}
	return nil
}

// Stored returns the position up to which the writer of a stream has stored or dead-lettered everything, 0 when
// there never was one. Any process that sees the cursors may ask; name is [Config].Name, "" its default.
func Stored(ctx context.Context, cursors sinks.Cursors, name, stream string) (uint64, error) {
	if name == "" {
		name = defaultName
	}
	c := cursor{store: cursors, key: name + "." + stream}
	_, err := c.load(ctx)
	return c.progress.Done, err
}
