package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"uuid"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const (
	newPrefix  = ".new-"  // folder of a writer that is not ready yet
	gonePrefix = ".gone-" // folder of a writer that is being deleted
	lastPrefix = "last-"
)

// lastEvent is the end of a writer's chain, kept when its folder is gone.
type lastEvent struct {
	Writer uuid.UUID    `json:"writer"`
	Seq    uint64       `json:"seq"`
	Hash   seal.Hash    `json:"hash"`
	Time   schemas.Time `json:"time"`
}

func (l lastEvent) ref() *schemas.WriterRef {
	if l.Seq == 0 {
		return nil
	}
	return &schemas.WriterRef{Writer: l.Writer, Seq: l.Seq, Hash: l.Hash}
}

func lastPath(dir, tenant string) string {
	h := seal.Event([]byte(tenant)) // any tenant makes a legal name
	return filepath.Join(dir, lastPrefix+h.String()[:16])
}

// readLast returns the zero value where nothing is noted.
func readLast(dir, tenant string) (lastEvent, error) {
	var l lastEvent
	path := lastPath(dir, tenant)
	b, err := os.ReadFile(path) //nolint:gosec // a name of ours in a configured folder
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("read last writer: %w", err)
	}
	if err := jsonx.UnmarshalStrict(b, &l); err != nil {
		return l, fmt.Errorf("last writer in %s: %w: delete the file to go on without a predecessor", path, err)
	}
	return l, nil
}

// writeLast notes l unless a later one is noted.
func writeLast(dir, tenant string, l lastEvent) error {
	if old, err := readLast(dir, tenant); err == nil && old.Time > l.Time {
		return nil
	}
	b, err := jsonx.Marshal(l)
	if err != nil {
		return fmt.Errorf("note last writer: %w", err)
	}
	if err := renameio.WriteFile(lastPath(dir, tenant), b, fileMode); err != nil {
		return fmt.Errorf("note last writer: %w", err)
	}
	return nil
}

// predecessor finds the newest writer of a tenant that is finished or dead; nil when there is none.
func predecessor(dir, tenant string) (*schemas.WriterRef, error) {
	newest, err := readLast(dir, tenant)
	if err != nil {
		return nil, err
	}
	dirs, err := Journals(dir)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		segs, err := listSegments(d)
		if err != nil || len(segs) == 0 {
			continue // gone meanwhile, or nothing in it
		}
		if schemas.At(segs[len(segs)-1].since.Add(time.Second)) < newest.Time || !isDead(d) {
			continue
		}
		j, err := openJournal(d)
		if err != nil || j.header.Tenant != tenant || j.lastTime < newest.Time || j.last == 0 {
			continue // a damaged journal is the adopter's to report
		}
		newest = lastEvent{Writer: j.header.Writer, Seq: j.last, Hash: j.lastHash, Time: j.lastTime}
	}
	return newest.ref(), nil
}

// isDead reports whether nobody holds the lock of a journal's writer. A writer takes it before its
// folder has a name, and an id never comes back: dead is for ever.
func isDead(dir string) bool {
	l := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(fileMode))
	ok, err := l.TryRLock()
	return errors.Join(err, l.Close()) == nil && ok
}
