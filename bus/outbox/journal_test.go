package outbox

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"uuid"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas"
)

// sampled is how many of the bytes one run goes past; where it begins is random.
const sampled = 5

// written makes a closed journal of one segment and returns its folder and the segment's bytes.
func written(tb testing.TB) (dir, path string, raw []byte) {
	tb.Helper()
	o := open(tb, Config{})
	for i := range 3 {
		x := uuid.NewV7()
		mustRecord(tb, o, request(x, bytes.Repeat([]byte("p"), i)))
		if i > 0 {
			mustRecord(tb, o, outcome(x))
		}
	}
	if err := o.Close(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	path = filepath.Join(o.Dir(), segmentName(1))
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return o.Dir(), path, raw
}

// ends returns the offset after each event of a segment.
func ends(tb testing.TB, raw []byte) []int64 {
	tb.Helper()
	fr := newFrameReader(bytes.NewReader(raw), 0, int64(len(raw)), 0)
	if _, _, err := readSegmentStart(fr); err != nil {
		tb.Fatal(err)
	}
	out := []int64{fr.off}
	for {
		if _, _, _, err := nextGroup(fr); err != nil {
			return out
		}
		out = append(out, fr.off)
	}
}

func TestTornTailEndsAtLastWholeEvent(t *testing.T) {
	t.Parallel()
	dir, path, raw := written(t)
	ends := ends(t, raw)
	batch := len(ends) - 3 // the stopped outcome and the close event are one
	for n := rand.IntN(sampled); n < len(raw); n += sampled {
		if err := os.WriteFile(path, raw[:n], fileMode); err != nil {
			t.Fatal(err)
		}
		want := 0
		for i, end := range ends {
			if int64(n) >= end && i <= batch {
				want = i
			}
		}
		got := 0
		for _, err := range Scan(dir) {
			if err != nil {
				t.Fatalf("journal cut at %d: %v, want no error", n, err)
			}
			got++
		}
		if got != want {
			t.Fatalf("journal cut at %d has %d events, want %d", n, got, want)
		}
	}
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	t.Parallel()
	dir, path, raw := written(t)
	ends := ends(t, raw)
	total := len(ends) - 1
	for at := rand.IntN(sampled); at < len(raw); at += sampled {
		bad := bytes.Clone(raw)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, bad, fileMode); err != nil {
			t.Fatal(err)
		}
		got := 0
		var failed error
		for _, err := range Scan(dir) {
			if failed = err; err == nil {
				got++
			}
		}
		lastFrame := int64(at) >= ends[total-1] // cannot be told from a torn tail; the stream has the hash
		switch {
		case failed == nil && !lastFrame:
			t.Fatalf("bit flipped at %d of %d: %d of %d events and no error", at, len(raw), got, total)
		case failed != nil && !errors.Is(failed, ErrCorrupt) && !bytes.Contains([]byte(failed.Error()), []byte("format")):
			t.Fatalf("bit flipped at %d: %v, want ErrCorrupt", at, failed)
		case got == total:
			t.Fatalf("bit flipped at %d: all %d events are returned", at, total)
		}
	}
}

func TestZeroedTailIsTorn(t *testing.T) {
	t.Parallel()
	dir, path, raw := written(t)
	if err := os.WriteFile(path, append(raw, make([]byte, 4096)...), fileMode); err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(dir)
	if err != nil || j.damage != nil || !j.closed {
		t.Errorf("journal with a tail of zeros: closed %t, damage %v, error %v; want a closed journal", j.closed, j.damage, err)
	}
}

func TestPayloadThatLooksLikeAFrame(t *testing.T) {
	t.Parallel()
	_, _, raw := written(t)
	o := open(t, Config{})
	mustRecord(t, o, request(uuid.NewV7(), raw))
	path := filepath.Join(o.Dir(), segmentName(1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(dir, dirMode); err != nil {
		t.Fatal(err)
	}
	// Torn inside the payload: nothing in it may pass for an event.
	if err := os.WriteFile(filepath.Join(dir, segmentName(1)), whole[:len(whole)-900], fileMode); err != nil {
		t.Fatal(err)
	}
	if got := kinds(t, scan(t, dir)); !cmp.Equal(got, []string{"writer open"}) {
		t.Errorf("journal torn inside a hostile payload holds %v, want the open event only", got)
	}
}

// A failed write that could not be cut off leaves a whole event behind that was never acknowledged.
func TestSpoiltSegmentEndsWhereTheNextBegins(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	good := request(uuid.NewV7(), []byte("good"))
	mustRecord(t, o, good)

	ghost := request(uuid.NewV7(), []byte("ghost"))
	s := o.scratch()
	if err := o.prepare(s, ghost); err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	ghost.Event.Seq, ghost.Event.PrevHash = o.seq+1, o.prev
	if err := s.event(&s.pending[0], 0, o.nonce); err != nil {
		t.Fatal(err)
	}
	if _, err := o.file.WriteAt(s.buf, o.segs[0].size); err != nil {
		t.Fatal(err)
	}
	o.spoilt = true
	o.mu.Unlock()

	after := request(uuid.NewV7(), []byte("after"))
	mustRecord(t, o, after)
	if n := o.Stats().Segments; n != 2 {
		t.Errorf("journal has %d segments, want a new one after the spoilt one", n)
	}
	entries := scan(t, o.Dir())
	var live []schemas.Entry
	for seq := uint64(0); seq < after.Event.Seq; seq = live[len(live)-1].Seq {
		got, err := o.Read(t.Context(), seq, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, got...)
	}
	for name, entries := range map[string][]schemas.Entry{"Scan": entries, "Read": live} {
		if n := len(entries); n != 3 || entries[1].Hash != good.Hash || entries[2].Hash != after.Hash {
			t.Errorf("%s gives %d events, want open, good and after", name, n)
		}
	}
}

func TestMissingSegmentIsNoticed(t *testing.T) {
	t.Parallel()
	o := open(t, Config{SegmentBytes: MinSegmentBytes, MaxBytes: 1 << 20})
	for range 20 {
		mustRecord(t, o, request(uuid.NewV7(), make([]byte, 2000)))
	}
	segs, err := listSegments(o.Dir())
	if err != nil || len(segs) < 4 {
		t.Fatalf("%d segments, %v; want at least 4", len(segs), err)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(segs[2].path, aside); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Rename(aside, segs[2].path) }()
	var failed error
	for _, err := range Scan(o.Dir()) {
		failed = err
	}
	if !errors.Is(failed, ErrCorrupt) {
		t.Errorf("Scan of a journal without its third segment gave %v, want ErrCorrupt", failed)
	}
}

func FuzzJournal(f *testing.F) {
	_, _, raw := written(f)
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
	f.Add([]byte{magic0, magic1, frameEvent, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, segmentName(1)), b, fileMode); err != nil {
			t.Fatal(err)
		}
		for _, err := range Scan(dir) {
			if err != nil {
				return
			}
		}
	})
}

// FuzzFrames goes past the checksum: it wraps the bytes into frames itself.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("payload"), byte(frameItem))
	f.Add(appendEventPrefix(nil, &request(uuid.NewV7(), nil).Event, 0), byte(frameEvent))
	f.Fuzz(func(t *testing.T, p []byte, typ byte) {
		b, at := beginFrame(nil)
		b = append(b, p...)
		if err := endFrame(b, at, typ, 0, 7, nil); err != nil {
			t.Fatal(err)
		}
		b = append(b, b...)
		fr := newFrameReader(bytes.NewReader(b), 0, int64(len(b)), 7)
		for range 2 {
			got, err := fr.next()
			if err != nil || got.typ != typ || !bytes.Equal(got.payload, p) {
				t.Fatalf("frame of type %d and %d bytes reads as type %d, %d bytes, %v", typ, len(p), got.typ, len(got.payload), err)
			}
		}
		fr.reset(bytes.NewReader(b), 0, int64(len(b)), 7)
		_, _, _, _ = nextGroup(fr)
		_, _ = decodeShed(append(p, make([]byte, shedSlot)...))
	})
}

func TestSegmentThatWasNeverBegunIsIgnored(t *testing.T) {
	t.Parallel()
	dir, _, raw := written(t)
	want := len(scan(t, dir))
	for _, begin := range [][]byte{nil, raw[:5], raw[:frameHeader+20]} {
		path := filepath.Join(dir, segmentName(uint64(want)+1))
		if err := os.WriteFile(path, begin, fileMode); err != nil {
			t.Fatal(err)
		}
		if got := len(scan(t, dir)); got != want {
			t.Errorf("journal with %d bytes of a next segment has %d events, want %d", len(begin), got, want)
		}
	}
}
