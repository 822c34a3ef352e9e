package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// headerPut names one Put: whoever finds its own name under a key knows that a Put without an answer was done.
const headerPut = "Chaintrail-Put"

// Cursors keeps small values by compare-and-set in the bucket [CursorBucket]. It satisfies sinks.Cursors
// and may be used concurrently.
type Cursors struct {
	js       jetstream.JetStream
	instance string
	puts     atomic.Uint64
}

// NewCursors uses the bucket that [Ensure] made.
func NewCursors(js jetstream.JetStream) *Cursors {
	return &Cursors{js: js, instance: nuid.Next()}
}

const cursorTry = 5 * time.Second

func (c *Cursors) subject(key string) string { return "$KV." + CursorBucket + "." + keyToken(key) }

// Keys keep their dots; a key that the bucket does not allow is encoded like a subject's token.
func keyToken(key string) string {
	for i, r := range []byte(key) {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' ||
			r == '.' && i > 0 && i < len(key)-1 && key[i-1] != '.'
		if !ok {
			return "=" + EncodeToken(key)
		}
	}
	if key == "" {
		return "=" + EncodeToken(key)
	}
	return key
}

// Get returns the value and its revision; a key that was never put has revision 0. It repeats while
// NATS is away, until ctx ends.
func (c *Cursors) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	err = retry.Do(ctx, retry.Policy{Max: time.Second}, func(ctx context.Context) error {
		m, err := c.get(ctx, key)
		if err != nil {
			return err
		}
		value, revision = nil, 0
		if m != nil {
			value, revision = m.Data, m.Sequence
		}
		return nil
	})
	return value, revision, err
}

func (c *Cursors) get(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	l := lane{js: c.js, stream: "KV_" + CursorBucket, filter: c.subject(key), timeout: cursorTry}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("cursor %s: %w", key, err)
	}
	defer l.close()
	m, err := l.last(ctx)
	if err != nil {
		return nil, fmt.Errorf("cursor %s: %w", key, err)
	}
	return m, nil
}

// Put stores value if the key still has the given revision (0: does not exist) and returns the new one.
// It repeats while NATS is away, until ctx ends; a Put whose answer was lost is recognized as done.
// schemas.ErrConflict means that somebody else was faster: stop.
func (c *Cursors) Put(ctx context.Context, key string, value []byte, revision uint64) (newRevision uint64, err error) {
	name := c.instance + "-" + strconv.FormatUint(c.puts.Add(1), 10)
	err = retry.Do(ctx, retry.Policy{Max: time.Second}, func(ctx context.Context) error {
		var err error
		newRevision, err = c.put(ctx, key, name, value, revision)
		if !errors.Is(err, ErrRefused) {
			return err
		}
		m, err := c.get(ctx, key)
		switch {
		case err != nil:
			return err
		case m != nil && m.Header.Get(headerPut) == name:
			newRevision = m.Sequence
			return nil
		}
		return retry.Permanent(fmt.Errorf("cursor %s at revision %d: %w", key, revision, schemas.ErrConflict))
	})
	return newRevision, err
}

func (c *Cursors) put(ctx context.Context, key, name string, value []byte, revision uint64) (uint64, error) {
	reply, err := call(ctx, c.js.Conn(), &nats.Msg{
		Subject: c.subject(key), Data: value,
		Header: nats.Header{
			jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(revision, 10)}, headerPut: {name},
		},
	}, cursorTry)
	if err != nil {
		return 0, fmt.Errorf("cursor %s: %w", key, err)
	}
	var ack pubAck
	if err := jsonx.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("cursor %s: answer: %w", key, err)
	}
	if ack.Error != nil {
		if ack.Error.ErrorCode == codeWrongLast || ack.Error.ErrorCode == codeWrongLastConst {
			return 0, fmt.Errorf("cursor %s: %w", key, ErrRefused)
		}
		return 0, fmt.Errorf("cursor %s: %w", key, ack.Error)
	}
	return ack.Seq, nil
}
