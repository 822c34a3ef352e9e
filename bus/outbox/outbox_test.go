package outbox

import (
	"errors"
	"io"
	"testing"
	"uuid"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func kinds(t *testing.T, entries []schemas.Entry) []string {
	t.Helper()
	var out []string
	for _, e := range entries {
		var ev schemas.Event
		if err := jsonx.UnmarshalStrict(e.Sealed, &ev); err != nil {
			t.Fatalf("sealed bytes of event %d: %v", e.Seq, err)
		}
		s := string(ev.Kind)
		switch {
		case ev.Life != nil:
			s += " " + ev.Life.State
		case ev.Decision != nil && ev.Decision.Outcome != "":
			s += " " + string(ev.Decision.Outcome)
		}
		out = append(out, s)
	}
	return out
}

func TestLifeOfAWriter(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	done, left := uuid.NewV7(), uuid.NewV7()
	first := request(done, []byte("one"))
	mustRecord(t, o, first)
	mustRecord(t, o, request(left, []byte("two")))
	mustRecord(t, o, outcome(done))
	if err := o.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := o.Record(t.Context(), outcome(left)); !errors.Is(err, ErrClosed) {
		t.Errorf("Record after Close gave %v, want ErrClosed", err)
	}
	entries := scan(t, o.Dir())
	want := []string{"writer open", "request", "request", "outcome allowed", "outcome stopped", "writer close"}
	if diff := cmp.Diff(want, kinds(t, entries)); diff != "" {
		t.Errorf("journal differs (-want +got):\n%s", diff)
	}

	e := entries[1]
	if e.Seq != 2 || e.Hash != first.Hash || e.Hash != seal.Event(e.Sealed) || e.Tenant != "default" {
		t.Errorf("entry is %d %s, Record said %d %s", e.Seq, e.Hash, first.Event.Seq, first.Hash)
	}
	var ev schemas.Event
	if err := jsonx.UnmarshalStrict(e.Sealed, &ev); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Event, ev); diff != "" {
		t.Errorf("sealed event differs from the record (-record +sealed):\n%s", diff)
	}
	for i, it := range e.Items {
		if diff := cmp.Diff(first.Items[i].OpenHeader, it.Header); diff != "" {
			t.Errorf("item %d differs (-record +journal):\n%s", i, diff)
		}
		if got := seal.Commit(seal.DomainTrue, it.Header.Salt, it.Data); got != ev.Open[i].Commitment {
			t.Errorf("commitment of item %s does not open", it.Header.Name())
		}
	}

	var stopped schemas.Event
	if err := jsonx.Unmarshal(entries[4].Sealed, &stopped); err != nil {
		t.Fatal(err)
	}
	if stopped.Operation.Phase != schemas.PhaseResponse || stopped.Operation.Direction != schemas.Receiving {
		t.Errorf("stopped outcome is of phase %s, %s; want that of every outcome", stopped.Operation.Phase, stopped.Operation.Direction)
	}
	if stopped.Correlation.Exchange != left || stopped.Operation.Target != "read" || stopped.Actor.Type != "user" {
		t.Errorf("stopped outcome is %+v of %+v, want that of the open exchange", stopped.Correlation, stopped.Operation)
	}
	after, err := o.Read(t.Context(), 4, 10, 1<<20)
	if err != nil || len(after) != 2 {
		t.Errorf("Read after Close gave %d entries, %v; want the 2 that are left", len(after), err)
	}
	if _, err := o.Read(t.Context(), 6, 10, 1<<20); !errors.Is(err, io.EOF) {
		t.Errorf("Read past the end of a closed journal gave %v, want io.EOF", err)
	}
}

func TestPredecessor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, Config{Dir: dir})
	other := open(t, Config{Dir: dir, Tenant: "other"})
	if err := errors.Join(a.Close(t.Context()), other.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	b := open(t, Config{Dir: dir})
	var ev schemas.Event
	if err := jsonx.Unmarshal(scan(t, b.Dir())[0].Sealed, &ev); err != nil {
		t.Fatal(err)
	}
	end := scan(t, a.Dir())
	last := end[len(end)-1]
	want := &schemas.WriterRef{Writer: a.Writer(), Seq: last.Seq, Hash: last.Hash}
	if diff := cmp.Diff(want, ev.Life.Predecessor); diff != "" {
		t.Errorf("predecessor differs (-want +got):\n%s", diff)
	}
}
