package outbox

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

func TestConcurrentRecordsAreReadInOrder(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 60
	for name, cfg := range map[string]Config{
		"process": {SegmentBytes: 32 << 10},
		"disk":    {SegmentBytes: 32 << 10, Durability: Durabilities{Request: DurableDisk}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := open(t, cfg)
			hashes := make([]string, 2*writers*each+2)
			var all, reader sync.WaitGroup
			var got []schemas.Entry
			reader.Go(func() {
				for {
					entries, err := o.Read(t.Context(), uint64(len(got)), 7, 16<<10)
					if errors.Is(err, io.EOF) {
						return
					}
					if err != nil || len(entries) == 0 || len(entries) > 7 {
						t.Errorf("Read gave %d entries, %v", len(entries), err)
						return
					}
					got = append(got, entries...)
				}
			})
			for range writers {
				all.Go(func() {
					for range each {
						x := uuid.NewV7()
						for _, rec := range []*schemas.Record{request(x, make([]byte, 700)), outcome(x)} {
							if err := o.Record(t.Context(), rec); err != nil {
								t.Error(err)
								return
							}
							hashes[rec.Event.Seq-1] = rec.Hash.String()
						}
					}
				})
			}
			all.Wait()
			if err := o.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			reader.Wait()
			if len(got) != len(hashes) {
				t.Fatalf("read %d entries, want %d", len(got), len(hashes))
			}
			for i, e := range got {
				if e.Seq != uint64(i)+1 || hashes[i] != "" && hashes[i] != e.Hash.String() {
					t.Errorf("entry %d has seq %d, hash %s; Record said %s", i+1, e.Seq, e.Hash, hashes[i])
				}
			}
			if n := len(scan(t, o.Dir())); n != len(hashes) {
				t.Errorf("Scan gives %d entries, want %d", n, len(hashes))
			}
		})
	}
}

func TestReadWaitsAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGaveUp)
	if _, err := o.Read(ctx, 1, 10, 1000); !errors.Is(err, errGaveUp) {
		t.Errorf("Read with nothing there and an ended context gave %v, want its cause", err)
	}
	got := make(chan []schemas.Entry)
	go func() {
		entries, _ := o.Read(t.Context(), 1, 10, 1000)
		got <- entries
	}()
	rec := request(uuid.NewV7(), nil)
	mustRecord(t, o, rec)
	if entries := <-got; len(entries) != 1 || entries[0].Hash != rec.Hash {
		t.Errorf("Read that waited gave %d entries, want the one recorded", len(entries))
	}
}

func TestReleaseDeletesOldSegmentsOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o, err := Open(t.Context(), Config{Dir: dir, SegmentBytes: MinSegmentBytes, MaxBytes: 1 << 20}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		early := uuid.NewV7()
		mustRecord(t, o, request(early, nil))
		for range 30 {
			x := uuid.NewV7()
			mustRecord(t, o, request(x, make([]byte, 1000)))
			mustRecord(t, o, outcome(x))
		}
		all := o.Stats()
		if err := o.Release(all.Seq); err != nil || o.Stats().Segments != all.Segments {
			t.Errorf("Release of young segments: %v, %d of %d left; want all kept for ten minutes", err, o.Stats().Segments, all.Segments)
		}
		pass(DefaultKeepFor)
		dead := uuid.NewV7()
		from := o.pin(dead)
		if from != all.Seq+1 {
			t.Errorf("pin is at %d, want %d", from, all.Seq+1)
		}
		if err := o.prune(); err != nil || o.Stats().Segments != 1 {
			t.Errorf("ten minutes later: %v, %d segments; want a new empty one", err, o.Stats().Segments)
		}
		mustRecord(t, o, request(uuid.NewV7(), nil))
		pass(DefaultKeepFor)
		if err := o.Release(all.Seq + 1); err != nil || len(scan(t, o.Dir())) != 1 {
			t.Errorf("what is pinned is gone (%v)", err)
		}
		o.unpin(dead)
		if err := o.prune(); err != nil || len(scan(t, o.Dir())) != 0 {
			t.Errorf("what is not pinned any more is kept (%v)", err)
		}
		if _, err := o.Read(t.Context(), 0, 1, 1); !errors.Is(err, ErrReleased) {
			t.Errorf("Read of a released event gave %v, want ErrReleased", err)
		}
		// Exchanges outlive the segments that their requests were in.
		j, err := openJournal(o.Dir())
		if err != nil || len(j.open) != 2 || j.open[0].Correlation.Exchange != early || j.last != all.Seq+1 {
			t.Errorf("journal says %d open exchanges, last %d, %v; want 2 and %d", len(j.open), j.last, err, all.Seq+1)
		}
		o.Published(all.Seq)
		if err := o.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := readHint(o.Dir() + "/" + hintName); got != all.Seq {
			t.Errorf("published position is noted as %d, want %d", got, all.Seq)
		}
	})
}

// pass lets d go by in the bubble of a synctest.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}
