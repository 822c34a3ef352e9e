// Package file writes sealed events as lines of JSON into files that are rotated by size, each event exactly once.
//
// Beside the lines lies the cursor, with the position of the stream and the length of the file at that position. A
// batch is written and synced before the cursor is replaced; what lies beyond the cursor at a start is cut off and
// written again. A folder has one writer at a time, kept by a lock.
package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// DefaultMaxBytes is the size from which a new file is begun.
const DefaultMaxBytes = 256 << 20

var (
	// ErrLocked is returned when another process writes into the folder: stop it, or use another folder.
	ErrLocked = errors.New("another process writes into this folder")
	// ErrShort is returned when a file is shorter than its cursor says: lines that were written are gone. Restore it, or
	// move files and cursor away to have everything written anew.
	ErrShort = errors.New("a file is shorter than its cursor says")
)

// Config of a [Sink].
type Config struct {
	Dir      string // required; made with mode 0700
	MaxBytes int64  // a file is closed when it has this many bytes; 0 means DefaultMaxBytes
}

// Sink writes one stream into one folder. Use it with a [sinks.Pipeline] of an event stream, and Close it after Run.
type Sink struct {
	config Config
	cursor cursor
	lock   *flock.Flock
	file   *os.File
	buf    []byte
}

// cursor is what is durably written. A crash between files and cursor leaves it behind, never ahead.
type cursor struct {
	Stream   string        `json:"stream"`
	Position uint64        `json:"position"`
	Leaves   uint64        `json:"leaves"`
	File     string        `json:"file"` // name in the folder
	Size     int64         `json:"size"` // bytes of File that are valid
	Seen     sinks.Tracker `json:"seen"`
}

// New returns a sink that has not touched the disk yet.
func New(config Config) (*Sink, error) {
	if config.Dir == "" {
		return nil, errors.New("a file sink needs a folder")
	}
	if config.MaxBytes <= 0 {
		config.MaxBytes = DefaultMaxBytes
	}
	return &Sink{config: config}, nil
}

// Resume implements sinks.Sink: it locks the folder and cuts off what lies beyond the cursor.
func (s *Sink) Resume(_ context.Context, stream string) (sinks.State, error) {
	if err := os.MkdirAll(s.config.Dir, 0o700); err != nil {
		return sinks.State{}, fmt.Errorf("make folder of file sink: %w", err)
	}
	s.lock = flock.New(filepath.Join(s.config.Dir, ".lock"))
	if ok, err := s.lock.TryLock(); err != nil || !ok {
		s.lock = nil
		return sinks.State{}, errors.Join(fmt.Errorf("%w: %s", ErrLocked, s.config.Dir), err)
	}
	raw, err := os.ReadFile(s.cursorPath(stream))
	switch {
	case errors.Is(err, os.ErrNotExist):
		s.cursor = cursor{Stream: stream}
	case err != nil:
		return sinks.State{}, fmt.Errorf("read cursor of file sink: %w", err)
	default:
		if err := jsonx.UnmarshalStrict(raw, &s.cursor); err != nil {
			return sinks.State{}, fmt.Errorf("cursor %s: %w", s.cursorPath(stream), err)
		}
		if s.cursor.File != filepath.Base(s.cursor.File) || s.cursor.Size < 0 {
			return sinks.State{}, fmt.Errorf("cursor %s names no file of its folder", s.cursorPath(stream))
		}
	}
	if s.cursor.File != "" {
		if err := s.reopen(); err != nil {
			return sinks.State{}, err
		}
	}
	return sinks.State{Position: s.cursor.Position, Leaves: s.cursor.Leaves}, nil
}

// reopen opens the file of the cursor and cuts it to its valid length.
func (s *Sink) reopen() error {
	path := filepath.Join(s.config.Dir, s.cursor.File)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0o600) //nolint:gosec // a base name in our folder
	if err != nil {
		return fmt.Errorf("open file of the cursor: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.Size() < s.cursor.Size {
		err = fmt.Errorf("%w: %s has %d bytes of %d", ErrShort, path, info.Size(), s.cursor.Size)
	}
	if err == nil && info.Size() > s.cursor.Size {
		err = file.Truncate(s.cursor.Size)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file = file
	return nil
}

// Classify implements sinks.Sink.
func (s *Sink) Classify(_ context.Context, _ uint64, entries []sinks.Entry) ([]sinks.Verdict, error) {
	verdicts := make([]sinks.Verdict, len(entries))
	for i := range entries {
		writer, seq := entries[i].Writer()
		verdicts[i] = s.cursor.Seen.Seen(writer, seq, entries[i].Hash)
	}
	return verdicts, nil
}

// Store implements sinks.Sink. A batch is in one file, which may so grow over its bound by one batch.
func (s *Sink) Store(_ context.Context, batch sinks.Batch) error {
	if err := s.rotate(batch.First); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	for i := range batch.Entries {
		s.buf = batch.Entries[i].AppendLine(s.buf)
	}
	if len(s.buf) > 0 {
		if _, err := s.file.Write(s.buf); err != nil {
			return fmt.Errorf("write %s: %w", s.cursor.File, err)
		}
		if err := s.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", s.cursor.File, err)
		}
	}
	s.cursor.Size += int64(len(s.buf))
	s.cursor.Position, s.cursor.Leaves = batch.Last, batch.Leaves
	return s.save()
}

// rotate begins a new file where one is due.
func (s *Sink) rotate(first uint64) error {
	if s.file != nil && s.cursor.Size < s.config.MaxBytes {
		return nil
	}
	name := fmt.Sprintf("%s-%020d.ndjson", safe(s.cursor.Stream), first)
	// One of this name was begun by a run that died before its cursor was saved.
	file, err := os.OpenFile(filepath.Join(s.config.Dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // our own name
	if err != nil {
		return fmt.Errorf("begin file: %w", err)
	}
	if err := syncDir(s.config.Dir); err != nil {
		return errors.Join(err, file.Close())
	}
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			return errors.Join(fmt.Errorf("close %s: %w", s.cursor.File, err), file.Close())
		}
	}
	s.file, s.cursor.File, s.cursor.Size = file, name, 0
	return nil
}

func (s *Sink) save() error {
	raw, err := jsonx.Marshal(&s.cursor)
	if err != nil {
		return fmt.Errorf("encode cursor: %w", err)
	}
	if err := renameio.WriteFile(s.cursorPath(s.cursor.Stream), raw, 0o600); err != nil {
		return fmt.Errorf("save cursor: %w", err)
	}
	return syncDir(s.config.Dir)
}

// Close releases file and folder. It may be called when Resume failed.
func (s *Sink) Close() error {
	var errs []error
	if s.file != nil {
		errs = append(errs, s.file.Close())
		s.file = nil
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Unlock())
		s.lock = nil
	}
	return errors.Join(errs...)
}

func (s *Sink) cursorPath(stream string) string {
	return filepath.Join(s.config.Dir, safe(stream)+".cursor.json")
}

// safe makes a stream's name a file name.
func safe(stream string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, stream)
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the configured folder
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync folder: %w", err), d.Close())
	}
	return d.Close()
}
