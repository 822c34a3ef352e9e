package bus_test

import (
	"testing"
	"uuid"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func hashOf(seq uint64, fork bool) seal.Hash {
	return seal.Hash{byte(seq), byte(seq >> 8), boolByte(fork)}
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 2
}

func TestSeqSetVerdicts(t *testing.T) {
	t.Parallel()
	var s bus.SeqSet
	w := uuid.NewV7()
	for i, step := range []struct {
		seq  uint64
		fork bool
		want bus.Verdict
	}{
		{1, false, bus.VerdictNew},
		{2, false, bus.VerdictNew},
		{2, false, bus.VerdictDuplicate},
		{2, true, bus.VerdictFork},
		{5, false, bus.VerdictHole},
		{6, false, bus.VerdictNew},
		{3, false, bus.VerdictNew},
		{4, false, bus.VerdictNew},
		{4, true, bus.VerdictFork},
		{0, false, bus.VerdictInvalid},
		{^uint64(0), false, bus.VerdictInvalid},
		{5000, false, bus.VerdictHole},
		{6, false, bus.VerdictOld},
	} {
		if got := s.Add(w, step.seq, hashOf(step.seq, step.fork)); got != step.want {
			t.Errorf("step %d: number %d is %v, want %v", i, step.seq, got, step.want)
		}
	}
	if got, want := s.Holes(w), []bus.Range{{First: 7, Last: 4999}}; !cmp.Equal(got, want) {
		t.Errorf("holes are %v, want %v", got, want)
	}
}

// The set agrees with a plain map, also across a restart.
func TestSeqSetAgreesWithMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &bus.SeqSet{}
		writers := []uuid.UUID{uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")}
		seen := map[uuid.UUID]map[uint64]bool{writers[0]: {}, writers[1]: {}}
		last := map[uuid.UUID]uint64{}
		compared := map[uuid.UUID]map[uint64]bool{writers[0]: {}, writers[1]: {}}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			w := rapid.SampledFrom(writers).Draw(t, "writer")
			if rapid.IntRange(0, 30).Draw(t, "restart") == 0 {
				b, err := jsonx.Marshal(s)
				if err != nil {
					t.Fatalf("encode: %v", err)
				}
				s = &bus.SeqSet{}
				if err := jsonx.Unmarshal(b, s); err != nil {
					t.Fatalf("decode %s: %v", b, err)
				}
				for _, w := range writers {
					if compared[w][last[w]] {
						compared[w] = map[uint64]bool{last[w]: true}
					} else {
						compared[w] = map[uint64]bool{}
					}
				}
			}
			seq := rapid.Uint64Range(1, 60).Draw(t, "seq")
			fork := rapid.Bool().Draw(t, "fork")
			got := s.Add(w, seq, hashOf(seq, fork && seen[w][seq]))
			want := bus.VerdictNew
			switch {
			case seen[w][seq] && !compared[w][seq]:
				want = bus.VerdictOld
			case seen[w][seq] && fork:
				want = bus.VerdictFork
			case seen[w][seq]:
				want = bus.VerdictDuplicate
			case seq > last[w]+1:
				want = bus.VerdictHole
			}
			if got != want {
				t.Fatalf("number %d is %v, want %v", seq, got, want)
			}
			if !seen[w][seq] {
				seen[w][seq], compared[w][seq] = true, true
				last[w] = max(last[w], seq)
			}
			missing := uint64(0)
			for _, r := range s.Holes(w) {
				for n := r.First; n <= r.Last; n++ {
					if missing++; seen[w][n] {
						t.Fatalf("%d counts as missing, but was seen", n)
					}
				}
			}
			if s.Count(w) != uint64(len(seen[w])) || s.Last(w) != last[w] || missing+s.Count(w) != last[w] {
				t.Fatalf("count %d, last %d, missing %d; want count %d, last %d", s.Count(w), s.Last(w), missing, len(seen[w]), last[w])
			}
		}
	})
}

func TestSeqSetWindow(t *testing.T) {
	t.Parallel()
	var s bus.SeqSet
	w := uuid.NewV7()
	for seq := uint64(1); seq <= 5000; seq++ {
		if got := s.Add(w, seq, hashOf(seq, false)); got != bus.VerdictNew {
			t.Fatalf("number %d is %v", seq, got)
		}
	}
	if got := s.Add(w, 3977, hashOf(3977, true)); got != bus.VerdictFork {
		t.Errorf("the oldest number within the window is %v, want fork", got)
	}
	if got := s.Add(w, 3976, hashOf(3976, true)); got != bus.VerdictOld {
		t.Errorf("a number beyond the window is %v, want old", got)
	}
}

func FuzzSeqSetJSON(f *testing.F) {
	f.Add([]byte(`{"01890a5d-ac96-774b-bcce-b302099a8057":{"ranges":[[1,5],[7,9]]}}`))
	f.Add([]byte(`{"01890a5d-ac96-774b-bcce-b302099a8057":{"ranges":[[5,1]]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s bus.SeqSet
		if jsonx.Unmarshal(b, &s) != nil {
			return
		}
		for _, w := range s.Writers() {
			_ = s.Holes(w)
			_ = s.Add(w, s.Last(w)+1, seal.Hash{})
		}
		again, err := jsonx.Marshal(&s)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		var second bus.SeqSet
		if err := jsonx.Unmarshal(again, &second); err != nil {
			t.Fatalf("%s does not decode again: %v", again, err)
		}
	})
}
