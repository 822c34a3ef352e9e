package outbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas"
)

// deadWriter leaves a journal behind as a killed process would: unlocked and not closed.
func deadWriter(t *testing.T, dir, tenant string) *Outbox {
	t.Helper()
	o, err := Open(t.Context(), Config{Dir: dir, Tenant: tenant, Gateway: "old"}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	mustRecord(t, o, request(uuid.NewV7(), []byte("left open")))
	if err := o.release(); err != nil {
		t.Fatal(err)
	}
	return o
}

func adopterFor(dir string, own *Outbox) *Adopter {
	cfg := AdopterConfig{Dir: dir, Every: time.Millisecond, KeepFor: 1}
	return NewAdopter(cfg, func(tenant string) *Outbox {
		if tenant != own.Tenant() {
			return nil
		}
		return own
	}, quiet())
}

// drain reads a journal to its end as a publisher does.
func drain(ctx context.Context, o *Orphan) ([]schemas.Entry, error) {
	var all []schemas.Entry
	for {
		got, err := o.Read(ctx, uint64(len(all)), 2, 1<<20)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, got...)
		o.Published(all[len(all)-1].Seq)
	}
}

func TestRunServesAndDeletesOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := deadWriter(t, dir, "default")
	closed := open(t, Config{Dir: dir})
	if err := closed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign := deadWriter(t, dir, "other")
	own := open(t, Config{Dir: dir})
	a := adopterFor(dir, own)

	ctx, stop := context.WithCancel(t.Context())
	served := make(chan *Orphan, 10)
	failing := true
	var running sync.WaitGroup
	running.Go(func() {
		err := a.Run(ctx, func(ctx context.Context, o *Orphan) error {
			if o.Writer() == dead.Writer() && failing {
				failing = false
				return errors.New("the stream is away")
			}
			entries, err := drain(ctx, o)
			if err == nil && len(entries) != int(o.Last()) {
				t.Errorf("journal of %s gives %d entries, want %d", o.Writer(), len(entries), o.Last())
			}
			served <- o
			return err
		})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for range 2 {
		if o := <-served; o.Writer() != dead.Writer() && o.Writer() != closed.Writer() {
			t.Errorf("journal of writer %s was served, want the dead and the closed one", o.Writer())
		}
	}
	if _, err := os.Stat(dead.Dir()); err != nil {
		t.Errorf("journal is deleted before it is released: %v", err)
	}
	for _, o := range a.Orphans() {
		a.Release(o.Writer(), o.Last())
	}
	for a.Stats().Removed < 2 { // bounded by the test's own timeout
		<-time.NewTimer(time.Millisecond).C
	}
	stop()
	running.Wait()

	dirs, err := Journals(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{foreign.Dir(), own.Dir()}, dirs); diff != "" {
		t.Errorf("journals left differ (-want +got):\n%s", diff)
	}
	want := []string{"writer open", "outcome lost", "writer adopted"}
	if diff := cmp.Diff(want, kinds(t, scan(t, own.Dir()))); diff != "" {
		t.Errorf("adopter's chain differs (-want +got):\n%s", diff)
	}
	if before, err := predecessor(dir, "default"); err != nil || before == nil || before.Writer != closed.Writer() {
		t.Errorf("predecessor is %+v, %v; want the closed writer, whose journal is gone", before, err)
	}
	if s := a.Stats(); s.Adopted != 2 || s.Lost != 1 || s.Held != 0 {
		t.Errorf("adopter counts %+v, want 2 adopted, 1 lost, none held", s)
	}
}

func TestManyAdoptersDeclareOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const dead, adopters = 6, 4
	for range dead {
		deadWriter(t, dir, "default")
	}
	var all sync.WaitGroup
	var adopting []*Adopter
	for range adopters {
		own := open(t, Config{Dir: dir})
		adopting = append(adopting, adopterFor(dir, own))
	}
	for _, a := range adopting {
		all.Go(func() {
			if _, err := a.Adopt(t.Context()); err != nil {
				t.Errorf("Adopt: %v", err)
			}
		})
	}
	all.Wait()
	held := 0
	for _, a := range adopting {
		held += a.Stats().Held
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	lost, adopted, _ := declarations(t, dir)
	if held != dead || len(lost) != dead || len(adopted) != dead {
		t.Errorf("of %d dead writers %d are held, %d declared, %d exchanges lost", dead, held, len(adopted), len(lost))
	}
	for w, n := range adopted {
		if n != 1 {
			t.Errorf("writer %s is declared dead %d times", w, n)
		}
	}
}

func TestJournalThatAnIntentNamesIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	halfway := deadWriter(t, dir, "default") // died between intent and declaration of dead
	dead := deadWriter(t, dir, "other")
	if err := writeMarker(dead.Dir(), marker{Adopter: halfway.Writer(), From: 2}); err != nil {
		t.Fatal(err)
	}
	own := open(t, Config{Dir: dir})
	a := adopterFor(dir, own)
	if _, err := a.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Release(halfway.Writer(), 100)
	if err := a.sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(halfway.Dir()); err != nil {
		t.Errorf("journal that an intent names is deleted: %v", err)
	}
	if err := writeMarker(dead.Dir(), marker{Adopter: halfway.Writer(), From: 2, Done: true}); err != nil {
		t.Fatal(err)
	}
	if err := a.sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(halfway.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("journal that no intent names any more is kept: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestDamagedJournalIsServedToTheDamageAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := deadWriter(t, dir, "default")
	path := filepath.Join(dead.Dir(), segmentName(1))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[ends(t, raw)[1]+40] ^= 1 // in an item of event 2
	if err := os.WriteFile(path, raw, fileMode); err != nil {
		t.Fatal(err)
	}
	own := open(t, Config{Dir: dir})
	a := adopterFor(dir, own)
	found, err := a.Adopt(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatalf("Adopt gave %d journals, %v; want the damaged one", len(found), err)
	}
	entries, err := drain(t.Context(), found[0])
	if len(entries) != 1 || !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged journal gives %d entries, %v; want the good one and ErrCorrupt", len(entries), err)
	}
	found[0].Release(100)
	if err := errors.Join(a.sweep(), a.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("damaged journal is deleted: %v", err)
	}
	if got := kinds(t, scan(t, own.Dir())); len(got) != 1 {
		t.Errorf("adopter's chain holds %v, want no word on a writer whose end is unknown", got)
	}
}

func TestTidyDeletesWhatKilledProcessesLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{newPrefix + "old", newPrefix + "young", gonePrefix + "x", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "sub"), dirMode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(dir, newPrefix+"old"), old, old); err != nil {
		t.Fatal(err)
	}
	a := NewAdopter(AdopterConfig{Dir: dir}, func(string) *Outbox { return nil }, quiet())
	if _, err := a.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	names, _ := os.ReadDir(dir)
	for _, n := range names {
		left = append(left, n.Name())
	}
	if diff := cmp.Diff([]string{newPrefix + "young", "other"}, left); diff != "" {
		t.Errorf("folders left differ (-want +got):\n%s", diff)
	}
}

func TestOrphanIsAdoptedWithinASecondOfTheDeath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := open(t, Config{Dir: dir})
	a := NewAdopter(AdopterConfig{Dir: dir}, func(string) *Outbox { return own }, quiet())
	ctx, stop := context.WithCancel(t.Context())
	adopted := make(chan time.Time, 1)
	var running sync.WaitGroup
	running.Go(func() {
		_ = a.Run(ctx, func(context.Context, *Orphan) error { adopted <- time.Now(); return nil })
	})
	if err := run(t, "die", dir, nil, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	if took := (<-adopted).Sub(died); took > time.Second {
		t.Errorf("adoption took %s, want at most a second", took)
	}
	stop()
	running.Wait()
}

func TestPinEndsWhenAnotherAdopterIsDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := deadWriter(t, dir, "default")
	own := open(t, Config{Dir: dir})
	a := adopterFor(dir, own)
	a.pinned[dead.Writer()] = own
	own.pin(dead.Writer())
	a.unpinDone()
	if len(own.pins) != 1 {
		t.Error("pin is gone before the declaration is marked done")
	}
	if err := writeMarker(dead.Dir(), marker{Adopter: own.Writer(), From: 2, Done: true}); err != nil {
		t.Fatal(err)
	}
	a.unpinDone()
	if len(own.pins) != 0 {
		t.Error("pin stays after another adopter marked the declaration done")
	}
}
