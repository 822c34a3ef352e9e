package bus

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func FuzzParseDelivery(f *testing.F) {
	f.Add("$JS.ACK.CHAINTRAIL_0.name.1.42.7.1700000000000000000.3")
	f.Add("$JS.ACK.domain.account.CHAINTRAIL_0.name.1.42.7.1700000000000000000.3.random")
	f.Add("$JS.ACK.a.b.c.d.e.f.g")
	f.Add("")
	f.Fuzz(func(t *testing.T, reply string) {
		if _, err := parseDelivery(reply); err != nil && !errors.Is(err, ErrHeader) {
			t.Errorf("%q gives an error of another class: %v", reply, err)
		}
	})
}

func TestParseDelivery(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"$JS.ACK.CHAINTRAIL_0.name.1.42.7.1700000000000000000.3",
		"$JS.ACK.domain.account.CHAINTRAIL_0.name.1.42.7.1700000000000000000.3.random",
	} {
		d, err := parseDelivery(reply)
		if err != nil || d.tries != 1 || d.position != 42 || d.ordinal != 7 || d.published.Unix() != 1700000000 || d.pending != 3 {
			t.Errorf("%q is read as %+v (%v)", reply, d, err)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(`{"event":"01890a5d-ac96-774b-bcce-b302099a8057","seq":1}`, "1-2", "7", "2026-01-01T00:00:00Z")
	f.Add(`{`, "2-1", "-1", "")
	f.Add(`[]`, "18446744073709551615-18446744073709551615", "18446744073709551616", "x")
	f.Fuzz(func(t *testing.T, item, open, seq, at string) {
		header := nats.Header{HeaderItem: {item}, HeaderOpen: {open}, HeaderSeq: {seq}, HeaderPart: {seq}, HeaderHash: {item}}
		header[jetstream.SequenceHeader], header[jetstream.TimeStampHeaer] = []string{seq}, []string{at}
		_, err1 := ItemHeader(header)
		_, err2 := Seq(header)
		_, err3 := Hash(header)
		_, err4 := placeOf(header)
		_, err5 := directMessage(&nats.Msg{Header: header})
		s, err6 := parseSpan(open)
		for _, err := range []error{err1, err2, err3, err4, err5, err6} {
			if err != nil && !errors.Is(err, ErrHeader) {
				t.Errorf("error of another class: %v", err)
			}
		}
		if err6 == nil && (s.first == 0 || s.last < s.first) {
			t.Errorf("%q is read as %v", open, s)
		}
		_ = traceParent([]byte(item))
	})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.12.0": true, "2.12.1": true, "v2.14.5": true, "3.0.0": true, "2.13.0-RC.1": true,
		"2.11.9": false, "1.99.99": false, "": false, "nonsense": false,
	} {
		if got := atLeast(version, MinServer); got != want {
			t.Errorf("version %q is new enough: %v, want %v", version, got, want)
		}
	}
}

func TestPortion(t *testing.T) {
	t.Parallel()
	var l lane
	if got := l.portion(1000); got != 1000 {
		t.Errorf("of 1000 messages %d go at once, want all", got)
	}
	if got := l.portion(20); got != 1 {
		t.Errorf("of 20 messages %d go at once to a server nearby, want 1", got)
	}
	for range 50 {
		l.took(1, 2_000_000) // 2 ms each way
	}
	if got := l.portion(20); got != 20 {
		t.Errorf("of 20 messages %d go at once to a server far away, want all", got)
	}
}
