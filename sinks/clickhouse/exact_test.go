package clickhouse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

// exact fails the test unless every event of calls is there exactly once.
func (r *rig) exact(t *testing.T, calls uint64) {
	t.Helper()
	for query, want := range map[string]uint64{
		"SELECT count() FROM events":                           2 * calls,
		"SELECT uniqExact(writer, seq) FROM events":            2 * calls,
		"SELECT uniqExact(leaf) FROM events":                   2 * calls,
		"SELECT if(count() = 0, 0, max(leaf) + 1) FROM events": 2 * calls,
		"SELECT count() FROM interceptions":                    2 * calls,
		"SELECT count() FROM exchanges":                        calls,
		"SELECT count() FROM invocations":                      calls,
		"SELECT uniqExact(id) FROM invocations":                calls,
	} {
		if got := count(t, r.conn, query); got != want {
			t.Errorf("%s = %d, want %d", query, got, want)
		}
	}
}

func (r *rig) calls(t *testing.T, w *sinktest.Writer, n int) {
	t.Helper()
	for range n {
		r.stream.Add(w.Call(t, "echo", "ann", schemas.OutcomeAllowed, "{}").Events...)
	}
}

// crash runs a writer that dies at its n-th move of the cursor: before it is stored, or after.
func (r *rig) crash(t *testing.T, n int, after bool) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	defer die()
	puts := 0
	r.cursors.OnPut = func(int, []byte) (bool, error) {
		if puts++; puts < n {
			return false, nil
		}
		die() // nothing that follows goes through
		return after && puts == n, errCrash
	}
	if err := r.writer(t).Run(ctx); err != nil {
		t.Errorf("writer that dies: %v", err)
	}
	r.cursors.OnPut = nil
}

func TestCrashBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ { // intent, done, intent, done
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("put %d after %v", n, after), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
				w := sinktest.NewWriter()
				r.opts.MaxMessages = 14
				r.calls(t, w, 15)
				r.crash(t, n, after)
				r.opts.MaxMessages = 9 // another cut would show
				r.calls(t, w, 5)
				stats := r.drain(t)
				r.exact(t, 20)
				r.clean(t)
				open := n%2 == 0 && !after || n%2 == 1 && after
				if (stats.Repeated == 1) != open {
					t.Errorf("repeated %d ranges, want one: %v", stats.Repeated, open)
				}
			})
		}
	}
}

// A server that is killed after it noted a token, and before it added the part, takes the repetition for a duplicate.
// What it leaves is made here by taking the rows away: the token stays.
func TestTokenWithoutRows(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"events", "interceptions", "invocations"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
			r.calls(t, sinktest.NewWriter(), 15)
			r.crash(t, 2, false)
			if err := r.conn.Exec(t.Context(), "ALTER TABLE "+table+" DELETE WHERE 1 SETTINGS mutations_sync = 2"); err != nil {
				t.Fatal(err)
			}
			if got := count(t, r.conn, "SELECT count() FROM "+table); got != 0 {
				t.Fatalf("%d rows are left", got)
			}
			r.drain(t)
			r.exact(t, 15)
			r.clean(t)
		})
	}
}

// The control: without tokens, and with ranges cut anew, the same crash doubles rows.
func TestCrashDoublesUnderSabotage(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	r.sabotage = "double-insert"
	w := sinktest.NewWriter()
	r.calls(t, w, 15)
	r.crash(t, 2, false)
	r.drain(t)
	if got := count(t, r.conn, "SELECT count() FROM events"); got != 60 {
		t.Errorf("sabotage made %d rows, want each of 30 twice", got)
	}
}

func TestDropRangeLosesUnderSabotage(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	r.sabotage, r.opts.MaxMessages = "drop-range", 2
	r.calls(t, sinktest.NewWriter(), 15)
	r.drain(t)
	if got := count(t, r.conn, "SELECT count() FROM events"); got != 28 {
		t.Errorf("sabotage left %d rows, want 28 of 30", got)
	}
}

// A cursor whose put went through although its answer was lost is recognized as our own.
func TestLostAnswerOfTheCursor(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	r.opts.MaxMessages = 4
	r.calls(t, sinktest.NewWriter(), 20)
	r.cursors.OnPut = func(n int, _ []byte) (bool, error) {
		switch n % 3 {
		case 0:
			return true, errCrash
		case 1:
			return false, errCrash
		default:
			return false, nil
		}
	}
	r.drain(t)
	r.exact(t, 20)
}

func TestSecondWriterTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	w := sinktest.NewWriter()
	r.calls(t, w, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan error, 2)
	writers := []*clickhouse.Writer{r.writer(t), r.writer(t)}
	for _, one := range writers {
		go func() { results <- one.Run(ctx) }()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	lost := []error{}
	for len(lost) == 0 { // they meet sooner or later
		r.calls(t, w, 1)
		select {
		case err := <-results:
			lost = append(lost, err)
		case <-tick.C:
		}
	}
	calls := r.stream.Last() / 2
	for max(writers[0].Stats().Position, writers[1].Stats().Position) < r.stream.Last() {
		select {
		case err := <-results:
			t.Fatalf("both writers stopped: %v, %v", lost[0], err)
		case <-tick.C:
		}
	}
	cancel()
	if err := <-results; err != nil || !errors.Is(lost[0], sinks.ErrConflict) {
		t.Errorf("writers returned %v and %v, want ErrConflict and nil", lost[0], err)
	}
	r.exact(t, calls)
	r.clean(t)
}

func TestRangeThatChangedIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	r.calls(t, sinktest.NewWriter(), 5)
	r.crash(t, 2, false)
	r.stream.Trim(3)
	if err := r.writer(t).Run(t.Context()); !errors.Is(err, sinks.ErrNotRepeatable) {
		t.Errorf("writer returned %v, want ErrNotRepeatable", err)
	}
}

func TestDuplicatesForksAndHoles(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	w := sinktest.NewWriter()
	var msgs []sinks.Message
	for range 10 {
		msgs = append(msgs, w.Event(t, &schemas.Event{Kind: schemas.KindAdmin, Admin: &schemas.Admin{Action: "config"}}))
	}
	fork := *w
	fork.Seq = 4
	r.stream.Add(msgs[:6]...)
	r.drain(t)
	r.stream.Add(msgs[2], msgs[8], msgs[8], fork.Event(t, &schemas.Event{Kind: schemas.KindAdmin}), msgs[6], msgs[7])
	r.stream.Add(sinks.Message{Data: []byte(`{"schema":`)}, sinks.Message{Data: []byte(`{}`)})
	stats := r.drain(t)
	got := []uint64{stats.Duplicates, stats.Forks, stats.Holes, stats.Undecodable, stats.Stored}
	if diff := cmp.Diff([]uint64{2, 1, 1, 2, 3}, got); diff != "" {
		t.Errorf("duplicates, forks, holes, undecodable, stored differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[uint64]string{10: "fork", 13: "undecodable", 14: "undecodable"}, r.letters.Reasons()); diff != "" {
		t.Errorf("dead letters differ (-want +got):\n%s", diff)
	}
	if n := count(t, r.conn, "SELECT count() FROM events"); n != 9 {
		t.Errorf("%d events are stored, want 9", n)
	}
	if n := count(t, r.conn, "SELECT uniqExact(leaf) FROM events WHERE leaf < 9"); n != 9 {
		t.Errorf("leaves are not 0 to 8")
	}
}

func TestLostCursorDoublesNothing(t *testing.T) {
	t.Parallel()
	for _, content := range []clickhouse.Content{clickhouse.ContentEvents, clickhouse.ContentOpen} {
		t.Run(fmt.Sprint(content), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "STREAM", content)
			w := sinktest.NewWriter()
			for i := range 10 {
				c := w.Call(t, "echo", "ann", schemas.OutcomeAllowed, "{}")
				if content == clickhouse.ContentEvents {
					r.stream.Add(c.Events...)
				} else {
					r.stream.Add(c.Items...)
				}
				if i == 5 {
					r.drain(t)
					r.cursors = sinktest.Cursors{}
				}
			}
			r.drain(t)
			if content == clickhouse.ContentEvents {
				r.exact(t, 10)
				return
			}
			if a, b := count(t, r.conn, "SELECT count() FROM bodies"), count(t, r.conn, "SELECT count() FROM open_items"); a != 10 || b != 20 {
				t.Errorf("%d bodies and %d items, want 10 and 20", a, b)
			}
		})
	}
}

// A second result cannot be told by its attempt: after the death of the bus a delivery counts as the first again.
func TestOneResultOfAnInvocation(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	w := sinktest.NewWriter()
	c := w.Call(t, "echo", "ann", schemas.OutcomeAllowed, "{}")
	r.stream.Add(c.Events...)
	r.stream.Add(w.Result(t, c, 1), w.Result(t, c, 1))
	r.drain(t)
	r.stream.Add(w.Result(t, c, 1))
	r.drain(t)
	if n := count(t, r.conn, "SELECT count() FROM invocations WHERE interceptor = 'siem'"); n != 1 {
		t.Errorf("%d results of one invocation, want 1", n)
	}
	if n := count(t, r.conn, "SELECT count() FROM events WHERE kind = 'invocation'"); n != 3 {
		t.Errorf("%d invocation events, want 3: sealed events are never left out", n)
	}
}

func TestBatchesEndWithTheMonth(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	w := sinktest.NewWriter()
	at := time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC)
	for i := range 6 {
		c := w.Call(t, "echo", "ann", schemas.OutcomeAllowed, "{}")
		for _, m := range c.Events {
			m.Published = at.AddDate(0, 0, i/2)
			r.stream.Add(m)
		}
	}
	stats := r.drain(t)
	r.exact(t, 6)
	if stats.Batches != 2 {
		t.Errorf("%d batches, want one for each month", stats.Batches)
	}
	if n := count(t, r.conn, "SELECT uniqExact(partition) FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active"); n != 2 {
		t.Errorf("%d partitions, want 2", n)
	}
}

func TestRefusedRowsAreFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	if err := r.conn.Exec(t.Context(), "ALTER TABLE interceptions ADD CONSTRAINT no_poison CHECK kind != 'outcome' OR target != 'poison'"); err != nil {
		t.Fatal(err)
	}
	w := sinktest.NewWriter()
	var want []uint64
	for i := range 40 {
		tool := "echo"
		if i == 7 || i == 31 {
			tool = "poison"
		}
		r.stream.Add(w.Call(t, tool, "ann", schemas.OutcomeAllowed, "{}").Events...)
		if tool == "poison" {
			want = append(want, r.stream.Last())
		}
	}
	r.crash(t, 2, false) // and once more after a crash
	r.drain(t)
	if n := count(t, r.conn, "SELECT count() FROM exchanges"); n != 38 {
		t.Errorf("%d exchanges, want 38", n)
	}
	if n := count(t, r.conn, "SELECT count() FROM events"); n != 80 {
		t.Errorf("%d events, want 80", n)
	}
	if diff := cmp.Diff(map[uint64]string{want[0]: "refused", want[1]: "refused"}, r.letters.Reasons()); diff != "" {
		t.Errorf("dead letters differ (-want +got):\n%s", diff)
	}
}

// Many crashes at random places, with batches cut at random.
func TestRandomCrashes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	w := sinktest.NewWriter()
	random := rand.New(rand.NewPCG(1, 2))
	total := 0
	for range 15 {
		n := 1 + random.IntN(30)
		r.calls(t, w, n)
		total += n
		r.opts.MaxMessages = 1 + random.IntN(20)
		r.crash(t, 1+random.IntN(6), random.IntN(2) == 0)
	}
	r.calls(t, w, 1)
	r.drain(t)
	r.exact(t, uint64(total+1))
	r.clean(t)
}

func TestSealedBytesAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	w := sinktest.NewWriter()
	m := w.Event(t, &schemas.Event{Kind: schemas.KindAdmin})
	// A member that this version does not know, and white space, stay.
	m.Data = bytes.Replace(m.Data, []byte(`{`), []byte("{ \"later\" : 9007199254740993,"), 1)
	delete(m.Header, "Chaintrail-Hash")
	r.stream.Add(m)
	r.drain(t)
	var raw string
	if err := r.conn.QueryRow(t.Context(), "SELECT raw FROM events").Scan(&raw); err != nil || raw != string(m.Data) {
		t.Errorf("stored %q, %v, want %q", raw, err, m.Data)
	}
}

// A table that does not fit refuses every row: nothing is dead-lettered, and all is there once it was mended.
func TestTableThatDoesNotFitIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_0", clickhouse.ContentEvents)
	for _, statement := range []string{
		"RENAME TABLE interceptions TO hidden",
		"CREATE TABLE interceptions AS hidden",
		"ALTER TABLE interceptions DROP COLUMN errors",
		"ALTER TABLE interceptions ADD COLUMN errors Array(String)",
	} {
		if err := r.conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	r.calls(t, sinktest.NewWriter(), 5)
	tries := make(chan error, 100)
	r.opts.Retry.Notify = func(err error, _ int, _ time.Duration) {
		select {
		case tries <- err:
		default:
		}
	}
	mended := make(chan error, 1)
	go func() {
		for range 3 {
			if err := <-tries; err == nil {
				t.Error("a try failed without an error")
			}
		}
		err := r.conn.Exec(t.Context(), "DROP TABLE interceptions SYNC")
		mended <- errors.Join(err, r.conn.Exec(t.Context(), "RENAME TABLE hidden TO interceptions"))
	}()
	r.drain(t)
	if err := <-mended; err != nil {
		t.Fatal(err)
	}
	r.exact(t, 5)
	r.clean(t)
}
