package bus_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
)

func TestCursors(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	js := server.Shard(nil)
	mine, other := bus.NewCursors(js), bus.NewCursors(server.JetStream())
	for _, key := range []string{"clickhouse.CHAINTRAIL_0", "a key * with > odd..signs/é", "", ".", "=x"} {
		value, rev, err := mine.Get(t.Context(), key)
		if err != nil || rev != 0 || len(value) != 0 {
			t.Fatalf("%q: a fresh key has %q at revision %d (%v)", key, value, rev, err)
		}
		first, err := mine.Put(t.Context(), key, []byte("one"), 0)
		if err != nil {
			t.Fatalf("%q: first put: %v", key, err)
		}
		if _, err := other.Put(t.Context(), key, []byte("two"), 0); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("%q: a second first put gave %v, want %v", key, err, schemas.ErrConflict)
		}
		second, err := other.Put(t.Context(), key, []byte("two"), first)
		if err != nil || second <= first {
			t.Errorf("%q: put at the right revision gave %d (%v)", key, second, err)
		}
		if _, err := mine.Put(t.Context(), key, []byte("three"), first); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("%q: put at an old revision gave %v, want %v", key, err, schemas.ErrConflict)
		}
		if value, rev, err := mine.Get(t.Context(), key); err != nil || string(value) != "two" || rev != second {
			t.Errorf("%q: has %q at revision %d (%v), want two at %d", key, value, rev, err, second)
		}
	}
}

// Of many consumers one wins each step, through lost answers: no step is made from an old value. (A
// consumer whose answer was lost may be told of a conflict although it had won: it stops in either case.)
func TestCursorsCountThroughOutages(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	_ = server.Shard(nil)
	const workers, steps = 4, 25
	var wg sync.WaitGroup
	for range workers {
		cut := &cutter{provider: server}
		nc, err := bus.Connect(bus.Config{InProcess: cut, ReconnectWait: 5 * time.Millisecond}, discard())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			c := bus.NewCursors(js)
			for won, tries := 0, 0; won < steps; tries++ {
				if tries == 5 {
					cut.cutOn(`{"stream":"KV_`, 3)
				}
				if err := addOne(t, c); errors.Is(err, schemas.ErrConflict) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				won++
			}
		})
	}
	wg.Wait()
	js := server.JetStream()
	value, _, err := bus.NewCursors(js).Get(t.Context(), "count")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_"+bus.CursorBucket)
	if err != nil {
		t.Fatal(err)
	}
	puts := stream.CachedInfo().State.LastSeq
	if got, _ := strconv.ParseUint(string(value), 10, 64); got != puts || puts < workers*steps {
		t.Errorf("the count is %d after %d puts, of which %d were confirmed", got, puts, workers*steps)
	}
}

// A Put that was done, but whose answer was lost, is no conflict for the one who made it.
func TestCursorPutWithoutAnswer(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	_ = server.Shard(nil)
	cut := &cutter{provider: server}
	nc, err := bus.Connect(bus.Config{InProcess: cut, ReconnectWait: 5 * time.Millisecond}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := bus.WaitReady(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	c := bus.NewCursors(js)
	revision := uint64(0)
	for i := range 10 {
		cut.cutOn(`{"stream":"KV_`, 1)
		next, err := c.Put(t.Context(), "key", []byte(strconv.Itoa(i)), revision)
		if err != nil || next != revision+1 {
			t.Fatalf("put %d gave revision %d (%v), want %d", i, next, err, revision+1)
		}
		revision = next
	}
	if cut.count() != 10 {
		t.Errorf("%d answers were lost, want 10", cut.count())
	}
}

func addOne(t *testing.T, c *bus.Cursors) error {
	t.Helper()
	value, rev, err := c.Get(t.Context(), "count")
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(value))
	if _, err = c.Put(t.Context(), "count", []byte(strconv.Itoa(n+1)), rev); err != nil {
		return fmt.Errorf("put %d: %w", n+1, err)
	}
	return nil
}
