package outbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

var errGaveUp = errors.New("the caller gave up")

func small(dir string, full OnFull) Config {
	return Config{Dir: dir, OnFull: full, SegmentBytes: MinSegmentBytes, MaxBytes: 128 << 10, KeepFor: 1}
}

// fillUp records requests until one is refused or shed, and returns that one's record and error.
func fillUp(t *testing.T, o *Outbox) (*schemas.Record, error) {
	t.Helper()
	for range 1000 {
		rec := request(uuid.NewV7(), make([]byte, 1000))
		if err := o.Record(t.Context(), rec); err != nil || rec.Shed {
			return rec, err
		}
	}
	t.Fatal("the journal takes a thousand requests and is not full")
	return nil, nil
}

func TestFullFailKeepsReserveForOutcomes(t *testing.T) {
	t.Parallel()
	o := open(t, small(t.TempDir(), FullFail))
	rec, err := fillUp(t, o)
	if !errors.Is(err, ErrFull) || rec.Shed || rec.Event.Seq != 0 {
		t.Fatalf("request to a full journal: seq %d, shed %t, error %v; want ErrFull", rec.Event.Seq, rec.Shed, err)
	}
	if used := o.Stats().UsedBytes; used > o.cfg.requestLimit() || used < o.cfg.requestLimit()/2 {
		t.Errorf("requests fill %d bytes, want about %d", used, o.cfg.requestLimit())
	}
	outcomes := 0
	for err = nil; err == nil && outcomes < 1000; outcomes++ {
		err = o.Record(t.Context(), outcome(uuid.NewV7()))
	}
	if !errors.Is(err, ErrFull) || outcomes < 5 {
		t.Errorf("%d outcomes went into the reserve, then %v; want several, then ErrFull", outcomes, err)
	}
	if used := o.Stats().UsedBytes; used > o.cfg.MaxBytes {
		t.Errorf("journal has %d bytes, bound is %d", used, o.cfg.MaxBytes)
	}
	if err := o.Release(o.Stats().Seq); err != nil {
		t.Fatal(err)
	}
	mustRecord(t, o, request(uuid.NewV7(), nil))
	if s := o.Stats(); s.UsedBytes > 64<<10 || s.Refused < 2 {
		t.Errorf("after everything is released: %+v, want little used and the refused counted", s)
	}
}

// What is stored must not keep new exchanges out for the whole of KeepFor.
func TestReleasedSegmentsGoEarlierWhenRoomIsNeeded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := small(dir, FullFail)
		cfg.KeepFor = time.Hour
		o := open(t, cfg)
		_, _ = fillUp(t, o)
		if err := o.Release(o.Stats().Seq); err != nil {
			t.Fatal(err)
		}
		if err := o.Record(t.Context(), request(uuid.NewV7(), make([]byte, 8000))); !errors.Is(err, ErrFull) {
			t.Errorf("a moment after the release: %v, want ErrFull: nothing is old enough", err)
		}
		time.Sleep(keepInNeed)
		if err := o.Release(o.Stats().Seq); err != nil {
			t.Fatal(err)
		}
		if used := o.Stats().UsedBytes; used > cfg.MaxBytes/2 || used < cfg.MaxBytes/4 {
			t.Errorf("%d bytes are used, want about half of %d: no more goes than is needed", used, cfg.MaxBytes)
		}
		mustRecord(t, o, request(uuid.NewV7(), nil))
	})
}

func TestFullShedIsCountedAndDeclared(t *testing.T) {
	t.Parallel()
	o := open(t, small(t.TempDir(), FullShed))
	rec, err := fillUp(t, o)
	if err != nil || !rec.Shed {
		t.Fatalf("request to a full journal: shed %t, error %v; want shed", rec.Shed, err)
	}
	before := o.Stats().Seq
	end := outcome(rec.Event.Correlation.Exchange)
	end.Shed = true
	mustRecord(t, o, end)
	if _, err := fillUp(t, o); err != nil {
		t.Fatal(err)
	}
	if s := o.Stats(); s.Seq != before || s.Shed != 2 || s.Undeclared != 2 {
		t.Errorf("two shed exchanges give %+v, want no event and a count of 2", s)
	}
	if st, err := readShed(filepath.Join(o.Dir(), shedName)); err != nil || st.total != 2 || st.declared != 0 {
		t.Errorf("count on disk is %+v, %v; want 2 of which 0 declared", st, err)
	}
	if err := o.keepHouse(t.Context()); err != nil || o.Stats().Undeclared != 2 {
		t.Errorf("gap is declared while there is no room for requests (%v)", err)
	}
	if err := o.Release(before); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to declare
		if err := o.keepHouse(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var gaps []uint64
	for _, e := range scan(t, o.Dir()) {
		var ev schemas.Event
		if e.Kind == schemas.KindGap && jsonx.Unmarshal(e.Sealed, &ev) == nil {
			gaps = append(gaps, ev.Gap.Count)
			if ev.Gap.Reason != GapShed || ev.Gap.From == 0 || ev.Gap.Until < ev.Gap.From {
				t.Errorf("gap is %+v, want its reason and times", ev.Gap)
			}
		}
	}
	if len(gaps) != 1 || gaps[0] != 2 {
		t.Errorf("gap events of %v exchanges, want one of 2", gaps)
	}
}

func TestFullBlockWaitsForRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o, err := Open(t.Context(), small(dir, FullBlock), quiet())
		if err != nil {
			t.Fatal(err)
		}
		ctx, giveUp := context.WithCancelCause(t.Context())
		recorded := make(chan error, 1)
		put := func(ctx context.Context) {
			var err error
			for err == nil && ctx.Err() == nil && o.Stats().Seq < 2000 {
				err = o.Record(ctx, request(uuid.NewV7(), make([]byte, 1000)))
			}
			recorded <- err
		}
		go put(ctx)
		synctest.Wait() // put waits for room
		if len(recorded) != 0 {
			t.Fatalf("Record on a full journal returned %v, want it to wait", <-recorded)
		}
		seq := o.Stats().Seq
		// Segments are younger than a nanosecond only in this bubble's clock.
		timer := time.NewTimer(time.Second)
		<-timer.C
		if err := o.Release(seq); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it went on, and waits again
		if got := o.Stats().Seq; got <= seq {
			t.Errorf("after a release the last event is %d, before it was %d", got, seq)
		}
		giveUp(errGaveUp)
		if err := <-recorded; !errors.Is(err, ErrFull) || !errors.Is(err, errGaveUp) {
			t.Errorf("Record whose caller gave up returned %v, want ErrFull and the cause", err)
		}
		go put(t.Context())
		synctest.Wait()
		if err := o.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-recorded; !errors.Is(err, ErrClosed) {
			t.Errorf("Record that waited at Close returned %v, want ErrClosed", err)
		}
	})
}

func TestConfigNamesKeyAndValue(t *testing.T) {
	t.Parallel()
	for key, c := range map[string]Config{
		"dir":                {},
		"durability.outcome": {Dir: "x", Durability: Durabilities{Outcome: "ram"}},
		"segment_bytes":      {Dir: "x", SegmentBytes: 1},
		"max_bytes":          {Dir: "x", SegmentBytes: 1 << 20, MaxBytes: 1 << 20},
		"on_full":            {Dir: "x", OnFull: "explode"},
		"sabotage":           {Dir: "x", Sabotage: "x"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "journal "+key+":") {
			t.Errorf("Validate gave %v, want an error that names %s", err, key)
		}
	}
	if err := (Config{Dir: "x"}).Validate(); err != nil {
		t.Errorf("Validate of the defaults gave %v", err)
	}
}

func TestFailedSyncBreaksTheJournalForGood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, err := Open(t.Context(), Config{Dir: dir, Durability: Durabilities{Request: DurableDisk}}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	mustRecord(t, o, request(uuid.NewV7(), nil))
	pipe, other, err := os.Pipe() // cannot be synced
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	o.mu.Lock()
	o.unsynced = append(o.unsynced, pipe)
	o.mu.Unlock()
	if err := o.Record(t.Context(), request(uuid.NewV7(), nil)); !errors.Is(err, ErrBroken) {
		t.Errorf("Record whose sync fails gave %v, want ErrBroken", err)
	}
	if err := o.Record(t.Context(), outcome(uuid.NewV7())); !errors.Is(err, ErrBroken) {
		t.Errorf("Record after a failed sync gave %v, want ErrBroken", err)
	}
	if entries, err := o.Read(t.Context(), 0, 10, 1<<20); err != nil || len(entries) != 2 {
		t.Errorf("readers get %d entries, %v; want the 2 that are on the disk", len(entries), err)
	}
	if err := o.Close(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("Close gave %v, want ErrBroken", err)
	}
	own := open(t, Config{Dir: dir})
	a := adopterFor(dir, own)
	found, err := a.Adopt(t.Context())
	if err != nil || len(found) != 1 || a.Stats().Lost != 2 {
		t.Errorf("Adopt gave %d journals, %d lost, %v; want the broken one with its 2 exchanges", len(found), a.Stats().Lost, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// What no server would take is refused at once: in the journal it would hold up everything behind it.
func TestOversizedSealedPartIsRefused(t *testing.T) {
	t.Parallel()
	o := open(t, Config{Dir: t.TempDir()})
	rec := request(uuid.NewV7(), nil)
	rec.Event.Operation.Target = strings.Repeat("x", MaxSealed)
	if err := o.Record(t.Context(), rec); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	seq := o.Stats().Seq
	rec = request(uuid.NewV7(), nil)
	mustRecord(t, o, rec)
	if rec.Event.Seq != seq+1 {
		t.Errorf("the next event has number %d, want %d", rec.Event.Seq, seq+1)
	}
}
