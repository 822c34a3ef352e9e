package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"uuid"

	"github.com/gofrs/flock"

	"github.com/chaintrail/chaintrail/internal/retry"
)

// Bounds and defaults of an [AdopterConfig].
const (
	DefaultAdoptEvery = 250 * time.Millisecond
	DefaultParallel   = 4
	tryAgainAfter     = 10 * time.Second // a journal that could not be adopted
	hiddenFor         = time.Minute      // least age of an unfinished folder before it is deleted
)

// AdopterConfig is an adopter's configuration. The zero value of every optional field means its
// default.
type AdopterConfig struct {
	Dir      string        // required: folder of all journals, as in Config
	Every    time.Duration // pause between two looks
	KeepFor  time.Duration // least age of a journal before it is deleted, as in Config
	Parallel int           // journals served at a time
}

// Adopter looks for journals whose writer is dead or closed and takes care of them: it declares the
// death of a writer that did not close, has the journal published to its end, and deletes it when
// everything in it is stored, sealed and old enough. Any number of adopters may work on one folder;
// a journal is held by one of them (flock), and given to another when that one dies. See declare for
// why a death is declared exactly once.
//
// Its methods may be called concurrently.
type Adopter struct {
	cfg      AdopterConfig
	recorder func(tenant string) *Outbox
	log      *slog.Logger
	step     func(string) // tests end the process here

	adopting sync.Mutex            // one look at a time; taken before mu
	pinned   map[uuid.UUID]*Outbox // covered by adopting: who pins events for the declaration of which writer

	mu      sync.Mutex // covers what follows
	held    map[uuid.UUID]*Orphan
	later   map[uuid.UUID]time.Time // do not look at these before
	adopted uint64
	lost    uint64
	removed uint64
}

// NewAdopter returns an adopter that declares deaths in the outbox that recorder returns for the
// tenant; a journal for whose tenant it returns nil is left alone.
func NewAdopter(cfg AdopterConfig, recorder func(tenant string) *Outbox, log *slog.Logger) *Adopter {
	def(&cfg.Every, DefaultAdoptEvery)
	def(&cfg.KeepFor, DefaultKeepFor)
	def(&cfg.Parallel, DefaultParallel)
	return &Adopter{
		cfg: cfg, recorder: recorder, log: log, step: func(string) {},
		held: make(map[uuid.UUID]*Orphan), later: make(map[uuid.UUID]time.Time),
		pinned: make(map[uuid.UUID]*Outbox),
	}
}

// Run adopts whatever it finds until ctx ends, and calls serve for each journal, at most Parallel at
// a time. serve publishes from the journal until it returns io.EOF, then returns nil; it is called
// again after a pause when it returns an error. Run returns when every serve has, and then holds
// nothing.
func (a *Adopter) Run(ctx context.Context, serve func(context.Context, *Orphan) error) error {
	slots := make(chan struct{}, a.cfg.Parallel)
	var all sync.WaitGroup
	for {
		found, err := a.Adopt(ctx)
		if err != nil && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "adoption of journals failed", slog.Any("error", err))
		}
		for _, o := range found {
			o.serves(true)
			all.Go(func() { // exits when the journal is served or ctx ends
				defer o.serves(false)
				a.serve(ctx, o, slots, serve)
			})
		}
		if err := a.sweep(); err != nil {
			a.log.WarnContext(ctx, "deletion of journals failed", slog.Any("error", err))
		}
		if !retry.Sleep(ctx, a.cfg.Every) {
			all.Wait()
			return a.Close()
		}
	}
}

func (a *Adopter) serve(ctx context.Context, o *Orphan, slots chan struct{}, serve func(context.Context, *Orphan) error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return
	}
	policy := retry.Policy{Notify: retry.Seldom(func(err error, tries int, pause time.Duration) {
		a.log.WarnContext(ctx, "publishing an adopted journal failed",
			slog.Any("writer", o.Writer()), slog.Any("error", err), slog.Int("tries", tries), slog.Duration("pause", pause))
	})}
	err := retry.Do(ctx, policy, func(ctx context.Context) error { return serve(ctx, o) })
	if err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "publishing an adopted journal is given up", slog.Any("writer", o.Writer()), slog.Any("error", err))
	}
}

func (o *Orphan) serves(now bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serving = now
}

// Adopt looks once and returns the journals that it adopted now. Those it returns are held until
// Close, or until they are released and deleted by Run. An error names the journals that could not
// be adopted; they are tried again ten seconds later at the earliest.
func (a *Adopter) Adopt(ctx context.Context) ([]*Orphan, error) {
	a.adopting.Lock()
	defer a.adopting.Unlock()
	a.tidy()
	a.unpinDone()
	dirs, err := Journals(a.cfg.Dir)
	if err != nil {
		return nil, err
	}
	var found []*Orphan
	var errs []error
	for _, dir := range dirs {
		if ctx.Err() != nil {
			break
		}
		id, _ := writerOf(filepath.Base(dir)) // Journals lists no other
		if !a.due(id) || !isDead(dir) {
			continue
		}
		o, err := a.adopt(dir)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("journal %s: %w", dir, err))
			a.postpone(id)
		case o != nil:
			found = append(found, o)
		}
	}
	return found, errors.Join(errs...)
}

// adopt returns nil when the journal is somebody else's.
func (a *Adopter) adopt(dir string) (_ *Orphan, err error) {
	lock := flock.New(filepath.Join(dir, adoptLockName), flock.SetPermissions(fileMode))
	defer func() {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if ok, err := lock.TryLock(); err != nil || !ok {
		if errors.Is(err, os.ErrNotExist) {
			err = nil // deleted meanwhile
		}
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, adoptLockName)); err != nil {
		return nil, nil //nolint:nilnil // deleted meanwhile; nothing to adopt is no error
	}
	j, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	if j.last == 0 && j.damage == nil {
		return nil, os.RemoveAll(dir) // nothing was ever recorded
	}
	own := a.recorder(j.header.Tenant)
	if own == nil {
		a.postpone(j.header.Writer)
		return nil, nil //nolint:nilnil // not ours is no error
	}
	if j.damage == nil && !j.closed {
		if err := a.declare(own, j); err != nil {
			return nil, err
		}
	}
	o := &Orphan{j: j, lock: lock, cursor: newCursor(j.header.Writer, j.header.Tenant), declared: j.damage == nil}
	if j.damage != nil {
		a.log.Error("journal is damaged; it is published up to there and kept", slog.Any("writer", o.Writer()), slog.Any("error", j.damage))
	}
	lock = nil
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[o.Writer()] = o
	delete(a.later, o.Writer())
	a.adopted++
	if !j.closed {
		a.lost += uint64(len(j.open))
	}
	a.log.Info("journal adopted", slog.Any("writer", o.Writer()), slog.String("tenant", o.Tenant()),
		slog.Uint64("last_seq", o.Last()), slog.Bool("closed", j.closed), slog.Int("open_exchanges", len(j.open)))
	return o, nil
}

func (a *Adopter) due(id uuid.UUID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.held[id]; ok {
		return false
	}
	return time.Now().After(a.later[id])
}

func (a *Adopter) postpone(id uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later[id] = time.Now().Add(tryAgainAfter)
}

// Orphans returns the journals that are held now, by age of their writers.
func (a *Adopter) Orphans() []*Orphan {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.held), func(x, y *Orphan) int { return x.Writer().Compare(y.Writer()) })
}

// Release is [Orphan.Release] for the journal of writer, if it is held here.
func (a *Adopter) Release(writer uuid.UUID, upTo uint64) {
	a.mu.Lock()
	o := a.held[writer]
	a.mu.Unlock()
	if o != nil {
		o.Release(upTo)
	}
}

// sweep deletes journals that nobody needs any more.
func (a *Adopter) sweep() error {
	var errs []error
	var named map[uuid.UUID]bool
	for _, o := range a.Orphans() {
		if !o.removable(a.cfg.KeepFor) {
			continue
		}
		if named == nil {
			var err error
			if named, err = intents(a.cfg.Dir); err != nil {
				return err
			}
		}
		if named[o.Writer()] {
			continue // a declaration may have to be looked for in it
		}
		a.mu.Lock()
		delete(a.held, o.Writer())
		a.removed++
		a.mu.Unlock()
		errs = append(errs, o.remove(a.cfg.Dir))
	}
	return errors.Join(errs...)
}

// intents returns the writers in whose chains a death may be declared that is not marked done.
func intents(journals string) (map[uuid.UUID]bool, error) {
	dirs, err := Journals(journals)
	if err != nil {
		return nil, err
	}
	out := make(map[uuid.UUID]bool)
	for _, dir := range dirs {
		m, err := readMarker(dir)
		if err != nil {
			return nil, err
		}
		if m != (marker{}) && !m.Done {
			out[m.Adopter] = true
		}
	}
	return out, nil
}

// tidy deletes what was left by who was killed while making or deleting a journal.
func (a *Adopter) tidy() {
	names, err := os.ReadDir(a.cfg.Dir)
	if err != nil {
		return // Journals reports it
	}
	for _, n := range names {
		path := filepath.Join(a.cfg.Dir, n.Name())
		info, err := n.Info()
		if err != nil {
			continue
		}
		gone := strings.HasPrefix(n.Name(), gonePrefix)
		unborn := strings.HasPrefix(n.Name(), newPrefix) && time.Since(info.ModTime()) > hiddenFor && isDead(path)
		if gone || unborn {
			err = os.RemoveAll(path)
		}
		if err != nil {
			a.log.Warn("left over folder cannot be deleted", slog.String("dir", path), slog.Any("error", err))
		}
	}
}

// Close gives up every journal that is held, for another adopter.
func (a *Adopter) Close() error {
	a.mu.Lock()
	held := a.held
	a.held = make(map[uuid.UUID]*Orphan)
	a.mu.Unlock()
	var errs []error
	for _, o := range held {
		errs = append(errs, o.close())
	}
	return errors.Join(errs...)
}

// AdopterStats is the state of an adopter at one moment. Counters begin with the adopter.
type AdopterStats struct {
	Held    int    // journals held now
	Backlog uint64 // events in them that are not published, as far as is known here
	Adopted uint64 // journals
	Lost    uint64 // exchanges declared lost
	Removed uint64 // journals deleted
}

// Stats returns the state of the adopter now.
func (a *Adopter) Stats() AdopterStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := AdopterStats{Held: len(a.held), Adopted: a.adopted, Lost: a.lost, Removed: a.removed}
	for _, o := range a.held {
		o.mu.Lock()
		s.Backlog += o.j.last - min(o.published, o.j.last)
		o.mu.Unlock()
	}
	return s
}
