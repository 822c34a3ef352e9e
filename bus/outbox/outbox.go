package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
	"uuid"

	"github.com/gofrs/flock"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// States of a writer's life, in schemas.WriterLife.State.
const (
	LifeOpen    = "open"
	LifeClose   = "close"
	LifeAdopted = "adopted"
)

// GapShed is the reason of a gap event for what was shed under on_full "shed".
const GapShed = "shed"

// Causes that the journal gives to outcomes it writes itself.
const (
	CauseShutdown   = "shutdown"    // stopped: the writer was closed
	CauseWriterLost = "writer_lost" // lost: the writer died
)

const (
	lockName = "lock"
	dirMode  = 0o700
	fileMode = 0o600
)

// Outbox is the journal of one writer. All methods may be called concurrently.
type Outbox struct {
	cfg  Config
	log  *slog.Logger
	id   uuid.UUID
	dir  string
	lock *flock.Flock

	nonce     uint32
	scratches sync.Pool
	shed      *shedFile
	hint      *os.File   // guarded by reading
	syncing   sync.Mutex // held during fdatasync; taken before mu
	reading   sync.Mutex // covers cursor and hint; taken after syncing, before mu
	cursor    *cursor

	mu        sync.Mutex // covers everything below
	file      *os.File   // of the last segment
	segs      []segment  // the last one is written to
	seq       uint64     // of the last event
	prev      seal.Hash
	prevTime  schemas.Time
	synced    uint64     // seq that is on the disk
	visible   uint64     // seq that readers may have
	waitDisk  uint64     // seq of the last event whose Record waits for the disk
	used      int64      // bytes of all segments
	spoilt    bool       // the last segment ends in bytes that could not be cut off
	unsynced  []*os.File // earlier segments that hold what is not on the disk yet
	exchanges exchanges
	closing   bool
	done      bool // nothing will follow seq
	broken    error
	grown     chan struct{} // closed when visible grows; nil when nobody waits
	freed     chan struct{} // closed when bytes are freed; nil when nobody waits
	published uint64
	released  uint64
	pins      map[uuid.UUID]uint64 // adoptions in progress: events from there on stay
	count     counters
}

// Open starts a new writer: its folder, its lock and its open event. Close it, whether or not Run
// was ever called.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Outbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Dir, dirMode); err != nil {
		return nil, fmt.Errorf("make folder of journals: %w", err)
	}
	before, err := predecessor(cfg.Dir, cfg.Tenant)
	if err != nil {
		return nil, fmt.Errorf("look for the writer before: %w", err)
	}
	o := &Outbox{cfg: cfg, log: log, id: uuid.NewV7(), nonce: rand.Uint32()} //nolint:gosec // a checksum key that payloads cannot know, no secret
	o.scratches.New = func() any { return new(scratch) }
	o.cursor = newCursor(o.id, cfg.Tenant)
	if err := o.start(ctx, before); err != nil {
		return nil, errors.Join(err, o.release())
	}
	warnDisk(cfg, log)
	return o, nil
}

// start makes the folder under another name first, so that whoever sees a journal sees it locked
// and with its open event.
func (o *Outbox) start(ctx context.Context, before *schemas.WriterRef) error {
	hidden := filepath.Join(o.cfg.Dir, newPrefix+o.id.String())
	o.dir = hidden
	if err := os.Mkdir(o.dir, dirMode); err != nil {
		return fmt.Errorf("make journal: %w", err)
	}
	o.lock = flock.New(filepath.Join(o.dir, lockName), flock.SetPermissions(fileMode))
	if ok, err := o.lock.TryLock(); err != nil || !ok {
		return fmt.Errorf("lock journal %s (taken: %t): %w", o.dir, !ok, err)
	}
	var err error
	if o.shed, err = createShedFile(filepath.Join(o.dir, shedName)); err != nil {
		return err
	}
	if o.hint, err = os.OpenFile(filepath.Join(o.dir, hintName), os.O_CREATE|os.O_RDWR, fileMode); err != nil {
		return fmt.Errorf("make file of the published position: %w", err)
	}
	o.mu.Lock()
	err = o.rotate()
	o.mu.Unlock()
	if err != nil {
		return err
	}
	open := schemas.Record{Event: schemas.Event{Kind: schemas.KindWriter, Life: &schemas.WriterLife{
		State:       LifeOpen,
		Predecessor: before,
		Version:     o.cfg.Version,
		Durability:  o.cfg.Durability.sealed(),
	}}}
	if err := o.Record(ctx, &open); err != nil {
		return fmt.Errorf("record the writer's begin: %w", err)
	}
	return o.show(hidden)
}

// show gives the folder its name.
func (o *Outbox) show(hidden string) error {
	o.reading.Lock()
	defer o.reading.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dir = filepath.Join(o.cfg.Dir, o.id.String())
	if err := os.Rename(hidden, o.dir); err != nil {
		o.dir = hidden
		return fmt.Errorf("name journal: %w", err)
	}
	for i := range o.segs {
		o.segs[i].path = filepath.Join(o.dir, filepath.Base(o.segs[i].path))
	}
	if o.cfg.Durability.anyDisk() {
		return syncDir(o.cfg.Dir)
	}
	return nil
}

// sealed is what the writer event says: the durability of requests and outcomes.
func (d *Durabilities) sealed() string {
	if d.Request == d.Outcome {
		return string(d.Request)
	}
	return string(d.Request) + "," + string(d.Outcome)
}

// Writer is the id of this writer.
func (o *Outbox) Writer() uuid.UUID { return o.id }

// Tenant is the tenant of every event of this writer.
func (o *Outbox) Tenant() string { return o.cfg.Tenant }

// Dir is the folder of this writer's journal.
func (o *Outbox) Dir() string { return o.dir }

// Run keeps house once a second until ctx ends: it deletes released segments that are old enough,
// declares gaps and notes the published position. It does not close the outbox.
func (o *Outbox) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := o.keepHouse(ctx); err != nil {
				o.log.WarnContext(ctx, "journal housekeeping failed", slog.Any("writer", o.id), slog.Any("error", err))
			}
		}
	}
}

func (o *Outbox) keepHouse(ctx context.Context) error {
	return errors.Join(o.prune(), o.declareShed(ctx), o.writeHint())
}

// Close ends the writer in order: from now on Record returns ErrClosed, each exchange that is still
// open gets an outcome `stopped`, the close event is written, everything goes to the disk and the
// lock is free. Readers get what is left, then io.EOF. What is not published yet stays in the
// journal for an Adopter. A second Close does nothing. ctx does not cut it short: it is one write and
// one sync.
func (o *Outbox) Close(_ context.Context) error {
	o.mu.Lock()
	if o.closing {
		o.mu.Unlock()
		return nil
	}
	o.closing = true
	wake(&o.freed)
	o.mu.Unlock()
	err := o.writeClose()
	o.mu.Lock()
	o.done = true
	o.visible = o.seq
	wake(&o.grown)
	ref := lastEvent{Writer: o.id, Seq: o.seq, Hash: o.prev, Time: o.prevTime}
	o.mu.Unlock()
	err = errors.Join(err, writeLast(o.cfg.Dir, o.cfg.Tenant, ref), o.writeHint())
	return errors.Join(err, o.release())
}

func (o *Outbox) writeClose() error {
	o.shed.declaring.Lock()
	defer o.shed.declaring.Unlock()
	now := schemas.At(time.Now())
	o.mu.Lock()
	open := o.exchanges.list()
	o.mu.Unlock()
	recs := make([]*schemas.Record, 0, len(open)+2)
	for i := range open {
		recs = append(recs, &schemas.Record{Event: open[i].outcome(schemas.OutcomeStopped, CauseShutdown, now)})
	}
	if gap := o.shed.undeclared(); gap.Count > 0 {
		recs = append(recs, &schemas.Record{Event: schemas.Event{Kind: schemas.KindGap, Gap: &gap}})
	}
	recs = append(recs, &schemas.Record{Event: schemas.Event{
		Kind: schemas.KindWriter,
		Life: &schemas.WriterLife{State: LifeClose, Version: o.cfg.Version, Open: len(open)},
	}})
	if err := o.recordAll(recs, true); err != nil {
		return fmt.Errorf("record the writer's close: %w", err)
	}
	o.mu.Lock()
	last := o.seq
	earlier := o.segs[:len(o.segs)-1]
	o.mu.Unlock()
	if o.cfg.Durability.anyDisk() {
		earlier = nil
	}
	return errors.Join(syncSegments(earlier), o.syncTo(last), syncDir(o.dir))
}

// release gives up files and lock.
func (o *Outbox) release() error {
	o.syncing.Lock()
	defer o.syncing.Unlock()
	o.reading.Lock()
	defer o.reading.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	var errs []error
	for _, f := range append(o.unsynced, o.file, o.hint) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	o.unsynced, o.file, o.hint = nil, nil, nil
	if o.shed != nil {
		errs = append(errs, o.shed.close())
	}
	if o.lock != nil {
		errs = append(errs, o.lock.Close())
	}
	return errors.Join(errs...)
}

// wake closes and forgets a channel that others wait on.
func wake(ch *chan struct{}) {
	if *ch != nil {
		close(*ch)
		*ch = nil
	}
}

// waiting returns the channel that wake will close.
func waiting(ch *chan struct{}) <-chan struct{} {
	if *ch == nil {
		*ch = make(chan struct{})
	}
	return *ch
}
