package ledger_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/audit/ledger"
	sealer "github.com/chaintrail/chaintrail/sinks/ledger"
)

const origin = "audit.example/test/0"

// A place that refuses for a while gets the newest head when it is back, and the state tells of it.
func TestAnchorIsCarriedUntilItIsThere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s := d.mustOpen(t.TempDir(), 10)
	posted := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posted <- string(body)
		if len(posted) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	a := sealer.NewAnchorer(s, sealer.AnchorConfig{
		Name: "elsewhere", Stream: stream, Outside: ledger.NewWebhookAnchor(server.URL, nil), Cursors: d.fence, Every: time.Millisecond,
		Log: d.log,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }() // exits when ctx ends
	d.mustStore(s, 1, 20)
	var at sealer.Anchor
	for at.Size != 20 {
		var err error
		if at, err = sealer.AnchoredAt(t.Context(), d.fence, "elsewhere", stream); err != nil {
			t.Fatal(err)
		}
	}
	d.mustStore(s, 21, 25)
	if err := s.Close(t.Context()); err != nil { // signs the last head
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if at, err := sealer.AnchoredAt(t.Context(), d.fence, "elsewhere", stream); err != nil || at.Size != 25 || at.Position != 25 {
		t.Errorf("at the end %+v is anchored (%v), want 25 leaves", at, err)
	}
	if n := len(posted); n != 4 {
		t.Errorf("%d requests, want two that were refused and one for each head", n)
	}
}

// A ledger that lost everything, fence included, signs nothing beside what is kept outside.
func TestAnchorOutsideBindsANewLedger(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s := d.mustOpen(t.TempDir(), 10)
	d.mustStore(s, 1, 20)
	place := ledger.NewFileAnchor(filepath.Join(t.TempDir(), "heads"))
	text, err := d.heads[0].Sign(d.signers()...)
	if err == nil {
		err = place.Put(t.Context(), &d.heads[0], text)
	}
	if err != nil {
		t.Fatal(err)
	}
	known, err := sealer.Look(t.Context(), place, origin, d.keys)
	if err != nil || len(known) != 1 || known[0].Size != 20 {
		t.Fatalf("outside is %v (%v), want a head of 20 leaves", known, err)
	}
	other := newDesk(t) // another bus: no fence
	other.keys, other.verifier, other.known = d.keys, d.verifier, known
	fresh := other.mustOpen(t.TempDir(), 5)
	other.mustStore(fresh, 1, 12)
	if len(other.heads) != 0 || !fresh.Stats().Behind {
		t.Errorf("%d heads are signed behind the one outside", len(other.heads))
	}
	other.mustStore(fresh, 13, 30)
	if len(other.heads) != 1 || other.heads[0].Size != 30 {
		t.Errorf("heads %v, want one of 30 leaves", other.heads)
	}
	forged := other.mustOpen(t.TempDir(), 5)
	if err := other.store(forged, 1, 40, "forged"); !errors.Is(err, sealer.ErrFork) {
		t.Errorf("other events gave %v, want %v", err, sealer.ErrFork)
	}
	if _, err := sealer.Look(t.Context(), place, origin, newDesk(t).keys); !sealer.Forged(err) || !strings.Contains(err.Error(), "outside") {
		t.Errorf("a head outside of unknown keys gave %v", err)
	}
}
