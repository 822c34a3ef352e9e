package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newGroup() *Group {
	return &Group{Drain: time.Second, Log: slog.New(slog.DiscardHandler)}
}

func TestStopsInOppositeOrder(t *testing.T) {
	t.Parallel()
	g := newGroup()
	var got []string
	for _, name := range []string{"engine", "bus", "gateway"} {
		err := g.Start(t.Context(), Part{
			Name:  name,
			Start: func(context.Context) error { got = append(got, "+"+name); return nil },
			Stop:  func(context.Context) error { got = append(got, "-"+name); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"+engine", "+bus", "+gateway", "-gateway", "-bus", "-engine"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("order differs (-got +want):\n%s", diff)
	}
}

func TestAPartThatHangsDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup()
		stopped := false
		parts := []Part{
			{Name: "quick", Start: func(context.Context) error { return nil }, Stop: func(context.Context) error { stopped = true; return nil }},
			{Name: "hangs", Start: func(context.Context) error { return nil }, Stop: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }},
		}
		for _, p := range parts {
			if err := g.Start(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		err := g.Stop(t.Context())
		if !errors.Is(err, ErrNow) || !stopped {
			t.Errorf("got error %v, other part stopped: %v; want ErrNow and true", err, stopped)
		}
	})
}

func TestWaitReportsAPartThatEnds(t *testing.T) {
	t.Parallel()
	g := newGroup()
	broken := errors.New("broken")
	if err := g.Start(t.Context(), Background("reader", func(context.Context) error { return broken })); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
