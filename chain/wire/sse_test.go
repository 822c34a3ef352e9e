package wire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// TestSSEComments: comments come out in their place, if they are wanted, but not inside events.
func TestSSEComments(t *testing.T) {
	t.Parallel()
	s := wire.NewSSEReader(strings.NewReader(": ok\n\n:\n:x\ndata: a\n: inside\n\n: end\n"), 0)
	s.Comments = true
	var got []wire.Event
	for {
		ev, err := s.Next()
		if err != nil {
			break
		}
		got = append(got, ev)
	}
	text := func(s string) wire.Event { return wire.Event{Comment: true, Data: []byte(s)} }
	want := []wire.Event{text("ok"), text(""), text("x"), {Data: []byte("a")}, text("end")}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	w := wire.NewSSEWriter(&out)
	for _, ev := range want {
		if err := w.Write(ev); err != nil {
			t.Fatal(err)
		}
	}
	if want := ": ok\n\n: \n\n: x\n\ndata: a\n\n: end\n\n"; out.String() != want {
		t.Errorf("written as %q, want %q", out.String(), want)
	}
}

func readEvents(tb testing.TB, r io.Reader, limit int) (events []wire.Event, tooLarge int) {
	tb.Helper()
	s := wire.NewSSEReader(r, limit)
	for {
		ev, err := s.Next()
		switch {
		case err == nil:
			events = append(events, ev)
		case errors.Is(err, wire.ErrTooLarge):
			tooLarge++
		default:
			if !errors.Is(err, io.EOF) {
				tb.Fatalf("Next: %v", err)
			}
			return events, tooLarge
		}
	}
}

func TestSSEReader(t *testing.T) {
	t.Parallel()
	d := func(s string) []byte { return []byte(s) }
	tests := []struct {
		name, in string
		want     []wire.Event
	}{
		{"one", "data: {}\n\n", []wire.Event{{Data: d("{}")}}},
		{"ends", "data:a\rdata: b\r\ndata\n\rdata:c\r\r", []wire.Event{{Data: d("a\nb\n")}, {Data: d("c")}}},
		{"mark, comment, unknown", "\xef\xbb\xbf: hi\nfoo: bar\ndata:  x:y\n\n", []wire.Event{{Data: d(" x:y")}}},
		{"mark only at the start", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []wire.Event{{Data: d("a")}}},
		{
			"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
			[]wire.Event{{ID: "1", HasID: true, Data: d("a")}, {ID: "1", Data: d("b")}, {HasID: true, Data: d("c")}},
		},
		{"id with NUL is ignored", "id: a\x00b\ndata: a\n\n", []wire.Event{{Data: d("a")}}},
		{"priming", "id: 5\nretry: 250\ndata:\n\n", []wire.Event{{ID: "5", HasID: true, Retry: 250 * time.Millisecond}}},
		{"retry only digits", "retry: +5\nretry: 1x\ndata: a\n\n", []wire.Event{{Data: d("a")}}},
		{"type", "event: ping\ndata: a\n\nevent: lost\n\ndata: b\n\n", []wire.Event{{Type: "ping", Data: d("a")}, {Data: d("b")}}},
		{"cut", "data: a\n\ndata: b\n", []wire.Event{{Data: d("a")}}},
		{"empty", "", nil},
		{"many blank lines", "\n\r\n\r\n\ndata: a\n\n\n", []wire.Event{{Data: d("a")}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(tt.in), "by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, _ := readEvents(t, r, 0)
				if diff := cmp.Diff(tt.want, got, cmp.Comparer(bytes.Equal)); diff != "" {
					t.Errorf("%s: events differ (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestSSEReaderBounds(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 300_000)
	in := "data: " + big + "\n\ndata: " + big + "y\ndata: more\n\nid: 7\ndata: ok\n\n" +
		strings.Repeat("data: "+big[:1000]+"\n", 400) + "\ndata: last\n\n"
	events, tooLarge := readEvents(t, strings.NewReader(in), 300_010)
	var got []int
	for _, e := range events {
		got = append(got, len(e.Data))
	}
	if diff := cmp.Diff([]int{300_000, 2, 4}, got); diff != "" || tooLarge != 2 {
		t.Errorf("%d events were skipped, want 2; lengths differ (-want +got):\n%s", tooLarge, diff)
	}
}

// An event must be handed on when its last byte came, even if that is a CR.
func TestSSEReaderDoesNotWait(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	s := wire.NewSSEReader(r, 0)
	go func() { _, _ = io.WriteString(w, "data: a\r\r") }()
	if ev, err := s.Next(); err != nil || string(ev.Data) != "a" {
		t.Errorf("Next: %+v, %v", ev, err)
	}
	_ = w.Close()
}

func TestSSEWriter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := wire.NewSSEWriter(&out)
	want := []wire.Event{
		{ID: "1", HasID: true, Type: "message", Retry: time.Second, Data: []byte("{}")},
		{ID: "1", Data: []byte("a\nb\n")},
		{HasID: true, Data: []byte("")},
	}
	for _, ev := range want {
		if err := w.Write(ev); err != nil {
			t.Fatal(err)
		}
		if err := w.Comment("a\nb"); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := readEvents(t, &out, 0); cmp.Diff(want, got, cmp.Comparer(bytes.Equal)) != "" {
		t.Errorf("events differ (-want +got):\n%s", cmp.Diff(want, got, cmp.Comparer(bytes.Equal)))
	}
	if w.Write(wire.Event{HasID: true, ID: "a\nb"}) == nil || w.Write(wire.Event{Type: "a\rb"}) == nil {
		t.Error("a line end in id or type was written")
	}
}

func FuzzSSEReader(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbfid: 1\ndata: a\r\ndata: b\r\r"), 100)
	f.Add([]byte("retry: 5\n\n: c\nevent: x\ndata\n\n"), 3)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = max(limit, -limit) % 5000
		whole, large := readEvents(t, bytes.NewReader(in), limit)
		parts, large2 := readEvents(t, iotest.OneByteReader(bytes.NewReader(in)), limit)
		if diff := cmp.Diff(whole, parts, cmp.Comparer(bytes.Equal)); diff != "" || large != large2 {
			t.Fatalf("the way of reading changed the events (%d, %d):\n%s", large, large2, diff)
		}
		var out bytes.Buffer
		w := wire.NewSSEWriter(&out)
		for _, ev := range whole {
			if err := w.Write(ev); err != nil {
				t.Fatalf("an event that was read cannot be written: %v", err)
			}
		}
		again, _ := readEvents(t, &out, 0)
		if len(again) != len(whole) {
			t.Fatalf("%d events came back, want %d", len(again), len(whole))
		}
		for i := range again {
			if !bytes.Equal(again[i].Data, whole[i].Data) || again[i].Retry != whole[i].Retry || again[i].Type != whole[i].Type {
				t.Fatalf("event %d came back as %+v, want %+v", i, again[i], whole[i])
			}
		}
	})
}
