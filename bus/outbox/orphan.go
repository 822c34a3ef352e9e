package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
	"uuid"

	"github.com/gofrs/flock"

	"github.com/chaintrail/chaintrail/schemas"
)

const adoptLockName = "adopt.lock"

// Orphan is the journal of a writer that is dead or closed, held by one adopter. Nothing in it is
// ever changed. Its methods may be called concurrently.
type Orphan struct {
	j    *journal
	lock *flock.Flock

	reading sync.Mutex // covers cursor
	cursor  *cursor

	mu        sync.Mutex // covers what follows
	declared  bool       // its end stands in a chain: closed, or adopted
	serving   bool
	published uint64
	released  uint64
}

// Writer is the id of the writer that made the journal; it is published under this id.
func (o *Orphan) Writer() uuid.UUID { return o.j.header.Writer }

// Tenant is the tenant of every event in it.
func (o *Orphan) Tenant() string { return o.j.header.Tenant }

// Last is the seq of the last event.
func (o *Orphan) Last() uint64 { return o.j.last }

// PublishedHint is how far the writer's own publisher had come, as far as it was noted. The stream
// knows better.
func (o *Orphan) PublishedHint() uint64 { return readHint(filepath.Join(o.j.dir, hintName)) }

// Read returns events after seq after, like [Outbox.Read], but does not wait: after the last event
// it returns io.EOF, or ErrCorrupt where the journal is damaged from there on.
func (o *Orphan) Read(ctx context.Context, after uint64, maxEntries, maxBytes int) ([]schemas.Entry, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if after >= o.j.last {
		if o.j.damage != nil {
			return nil, o.j.damage
		}
		return nil, io.EOF
	}
	o.reading.Lock()
	defer o.reading.Unlock()
	return o.cursor.read(o.j.view, after, o.j.last, maxEntries, maxBytes)
}

// Published notes that the stream has acknowledged events up to seq.
func (o *Orphan) Published(seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.published = max(o.published, seq)
}

// Release says that events up to seq are stored and sealed, and that both are synced. When that is
// all, the adopter deletes the journal once it is old enough.
func (o *Orphan) Release(seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released = max(o.released, seq)
}

// Progress tells up to which seq events are published and released here, as told by Published and Release.
func (o *Orphan) Progress() (published, released uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.published, o.released
}

// removable reports whether nobody needs the journal any more.
func (o *Orphan) removable(keepFor time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.declared || o.serving || o.released < o.j.last || o.j.damage != nil {
		return false
	}
	for _, s := range o.j.segs {
		if time.Since(s.since) < keepFor {
			return false
		}
	}
	return true
}

// remove deletes the journal; its end stays known as a predecessor.
func (o *Orphan) remove(journals string) error {
	j := o.j
	end := lastEvent{Writer: j.header.Writer, Seq: j.last, Hash: j.lastHash, Time: j.lastTime}
	if j.last > 0 {
		if err := writeLast(journals, j.header.Tenant, end); err != nil {
			return err
		}
	}
	gone := filepath.Join(journals, gonePrefix+filepath.Base(j.dir))
	if err := os.Rename(j.dir, gone); err != nil { // half a journal must never look like a whole one
		return fmt.Errorf("delete journal: %w", err)
	}
	if err := errors.Join(o.close(), os.RemoveAll(gone)); err != nil {
		return fmt.Errorf("delete journal: %w", err)
	}
	return nil
}

func (o *Orphan) close() error {
	o.reading.Lock()
	defer o.reading.Unlock()
	o.cursor.close()
	return o.lock.Close()
}
