package sinks_test

import (
	"testing"
	"uuid"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
	"github.com/chaintrail/chaintrail/sinks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tracker agrees with a plain set, over restarts too.
func TestTrackerIsASet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tracker := &sinks.Tracker{}
		writers := []uuid.UUID{uuid.NewV4(), uuid.NewV4()}
		seen := map[uuid.UUID]map[uint64]bool{writers[0]: {}, writers[1]: {}}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			writer := writers[rapid.IntRange(0, 1).Draw(t, "writer")]
			seq := rapid.Uint64Range(1, 60).Draw(t, "seq")
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				raw, err := jsonx.Marshal(tracker)
				if err != nil {
					t.Fatal(err)
				}
				tracker = &sinks.Tracker{}
				if err := jsonx.UnmarshalStrict(raw, tracker); err != nil {
					t.Fatal(err)
				}
			}
			verdict := tracker.Seen(writer, seq, seal.Event([]byte{byte(seq)}))
			fresh := verdict == sinks.VerdictNew || verdict == sinks.VerdictHole
			if fresh == seen[writer][seq] {
				t.Fatalf("verdict on %d is %d, but seen before is %v", seq, verdict, seen[writer][seq])
			}
			seen[writer][seq] = true
		}
	})
}

func TestTrackerSeesForks(t *testing.T) {
	t.Parallel()
	tracker := &sinks.Tracker{}
	writer := uuid.NewV4()
	a, b := seal.Event([]byte("a")), seal.Event([]byte("b"))
	for _, step := range []struct {
		seq  uint64
		hash seal.Hash
		want sinks.Verdict
	}{
		{1, a, sinks.VerdictNew},
		{1, a, sinks.VerdictDuplicate},
		{1, b, sinks.VerdictFork},
		{4, a, sinks.VerdictHole},
		{3, a, sinks.VerdictNew},
		{3, b, sinks.VerdictFork},
		{4, b, sinks.VerdictFork},
		{2, b, sinks.VerdictNew},
		{5000, a, sinks.VerdictHole},
		{4, b, sinks.VerdictDuplicate},
	} {
		if got := tracker.Seen(writer, step.seq, step.hash); got != step.want {
			t.Errorf("verdict on %d is %d, want %d", step.seq, got, step.want)
		}
	}
}

func TestTrackerIsBounded(t *testing.T) {
	t.Parallel()
	tracker := &sinks.Tracker{}
	for range 3000 {
		writer := uuid.NewV4()
		for seq := uint64(1); seq < 40; seq += 2 {
			tracker.Seen(writer, seq, seal.Hash{})
		}
	}
	one := uuid.NewV4()
	for seq := uint64(1); seq < 10_000; seq += 2 {
		tracker.Seen(one, seq, seal.Hash{})
	}
	raw, err := jsonx.Marshal(tracker)
	if err != nil || len(raw) > 1<<20 {
		t.Errorf("tracker has %d bytes as JSON, %v, want less than 1 MiB", len(raw), err)
	}
}
