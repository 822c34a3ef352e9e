package outbox

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// acked is what a child was told is journaled.
type acked struct {
	kind, exchange, hash string
	seq                  uint64
}

// journaled is what is found on disk: hashes by kind and exchange.
type journaled map[string][]string

func readAll(t *testing.T, dir string) journaled {
	t.Helper()
	found := journaled{}
	dirs, err := Journals(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		next := uint64(1)
		for _, e := range scan(t, d) { // scan checks hash and chain
			if e.Seq != next {
				t.Fatalf("journal %s goes from %d to %d", filepath.Base(d), next-1, e.Seq)
			}
			next++
			var ev schemas.Event
			if err := jsonx.UnmarshalStrict(e.Sealed, &ev); err != nil {
				t.Fatal(err)
			}
			if ev.Correlation != nil {
				key := string(e.Kind) + " " + ev.Correlation.Exchange.String()
				found[key] = append(found[key], e.Hash.String())
			}
		}
	}
	return found
}

// crashRounds kills a child that writes, again and again, and returns what it was told.
func crashRounds(t *testing.T, dir string, rounds int, env ...string) []acked {
	t.Helper()
	var told []acked
	for round := range rounds {
		left := 1 + rand.IntN(400)
		err := run(t, "write", dir, env, func(line string) bool {
			var a acked
			if n, _ := fmt.Sscan(line, &a.kind, &a.exchange, &a.seq, &a.hash); n == 4 {
				told = append(told, a)
			}
			left--
			return left > 0
		})
		if err != nil {
			t.Errorf("round %d: %v", round, err)
			break
		}
	}
	return told
}

func missing(told []acked, found journaled) (lost, doubled int) {
	for _, a := range told {
		switch hashes := found[a.kind+" "+a.exchange]; {
		case len(hashes) == 0 || hashes[0] != a.hash:
			lost++
		case len(hashes) > 1:
			doubled++
		}
	}
	return lost, doubled
}

func TestKill9LosesNothing(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"process": nil, "disk": {diskEnv + "=1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := 25
			if testing.Short() {
				rounds = 5
			}
			dir := t.TempDir()
			told := crashRounds(t, dir, rounds, env...)
			lost, doubled := missing(told, readAll(t, dir))
			t.Logf("%d kills, %d records acknowledged, lost %d, doubled %d", rounds, len(told), lost, doubled)
			if lost+doubled > 0 || len(told) < rounds {
				t.Errorf("of %d acknowledged records %d are lost and %d doubled", len(told), lost, doubled)
			}
		})
	}
}

func TestCrashTestNoticesASkippedJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	told := crashRounds(t, dir, 5, sabotageEnv+"="+SabotageSkipJournal)
	if lost, _ := missing(told, readAll(t, dir)); lost == 0 {
		t.Errorf("of %d records acknowledged by a journal that skips some, none is missing: this test proves nothing", len(told))
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var told []acked
	err := run(t, "limit", dir, nil, func(line string) bool {
		var a acked
		if n, _ := fmt.Sscan(line, &a.kind, &a.exchange, &a.seq, &a.hash); n == 4 {
			a.kind = "request"
			told = append(told, a)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	found := readAll(t, dir)
	if lost, _ := missing(told, found); lost > 0 {
		t.Errorf("%d of %d records that were kept are missing", lost, len(told))
	}
	requests := 0
	for key := range found {
		if key[:7] == "request" {
			requests++
		}
	}
	if requests != len(told) {
		t.Errorf("journal holds %d requests, %d were acknowledged: a refused one was recorded", requests, len(told))
	}
}

// declarations counts, over all journals, lost outcomes by exchange and adoptions by dead writer.
func declarations(t *testing.T, dir string) (lost, adopted map[uuid.UUID]int, shed uint64) {
	t.Helper()
	lost, adopted = map[uuid.UUID]int{}, map[uuid.UUID]int{}
	dirs, err := Journals(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		for _, e := range scan(t, d) {
			var ev schemas.Event
			if err := jsonx.UnmarshalStrict(e.Sealed, &ev); err != nil {
				t.Fatal(err)
			}
			switch {
			case ev.Decision != nil && ev.Decision.Outcome == schemas.OutcomeLost:
				lost[ev.Correlation.Exchange]++
				if ev.Operation == nil || ev.Operation.Target != "read" {
					t.Errorf("lost outcome has operation %+v, want that of its request", ev.Operation)
				}
			case ev.Kind == schemas.KindGap:
				shed += ev.Gap.Count
			case ev.Life != nil && ev.Life.State == LifeAdopted:
				adopted[ev.Life.Subject.Writer]++
			}
		}
	}
	return lost, adopted, shed
}

func TestAdoptionIsDeclaredOnce(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]string{
		{"intent"},
		{"declared"},
		{"done"},
		{"intent", "intent", "declared", "declared", "done"},
		{"declared", "intent", "done", "declared"},
	} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			opened := map[uuid.UUID]bool{}
			for range 2 {
				err := run(t, "die", dir, nil, func(line string) bool {
					var word, id string
					if n, _ := fmt.Sscan(line, &word, &id); n == 2 && word == "open" {
						opened[uuid.MustParse(id)] = true
					}
					return true
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range append(steps, "") {
				if err := run(t, "adopt", dir, []string{stepEnv + "=" + step}, func(string) bool { return true }); err != nil {
					t.Fatalf("adopter that dies at %q: %v", step, err)
				}
			}
			lost, adopted, shed := declarations(t, dir)
			for x, n := range lost {
				if !opened[x] || n != 1 {
					t.Errorf("exchange %s, open: %t, is declared lost %d times", x, opened[x], n)
				}
			}
			if len(lost) != 2*childOpen {
				t.Errorf("%d exchanges are declared lost, want %d", len(lost), 2*childOpen)
			}
			if len(adopted) != 2+len(steps) {
				t.Errorf("%d writers are declared dead, want %d", len(adopted), 2+len(steps))
			}
			for w, n := range adopted {
				if n != 1 {
					t.Errorf("writer %s is declared dead %d times", w, n)
				}
			}
			if shed != 2*childShed {
				t.Errorf("gaps of %d exchanges are declared, want %d", shed, 2*childShed)
			}
		})
	}
}

// Two processes at a time write, adopt what they find and are killed; at the end each exchange has
// exactly one outcome.
func TestEveryExchangeEndsOnceInAStorm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	var storm sync.WaitGroup
	var told [2][]acked
	for i := range told {
		storm.Go(func() { told[i] = crashRounds(t, dir, rounds, adoptEnv+"=1") })
	}
	storm.Wait()
	own := open(t, Config{Dir: dir})
	a := adopterFor(dir, own)
	if _, err := a.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	found := readAll(t, dir)
	if lost, doubled := missing(append(told[0], told[1]...), found); lost+doubled > 0 {
		t.Errorf("%d acknowledged records are lost, %d doubled", lost, doubled)
	}
	requests := 0
	for key, hashes := range found {
		exchange, ok := strings.CutPrefix(key, "request ")
		if !ok {
			continue
		}
		requests++
		if n := len(found["outcome "+exchange]); n != 1 || len(hashes) != 1 {
			t.Errorf("exchange %s has %d requests and %d outcomes, want one each", exchange, len(hashes), n)
		}
	}
	lost, adopted, _ := declarations(t, dir)
	for w, n := range adopted {
		if n != 1 {
			t.Errorf("writer %s is declared dead %d times", w, n)
		}
	}
	t.Logf("%d kills, %d exchanges, %d writers declared dead, %d exchanges lost", 2*rounds, requests, len(adopted), len(lost))
	if len(adopted) != 2*rounds {
		t.Errorf("%d writers are declared dead, want %d", len(adopted), 2*rounds)
	}
}
