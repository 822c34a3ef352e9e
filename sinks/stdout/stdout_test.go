package stdout_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
	"github.com/chaintrail/chaintrail/sinks/stdout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a buffer with cursors.
type place struct {
	out     bytes.Buffer
	cursors sinktest.Cursors
}

func (p *place) Open(t *testing.T) (sinks.Sink, func()) {
	t.Helper()
	return stdout.New(stdout.Config{Out: &p.out, Cursors: &p.cursors}), func() {}
}

func (p *place) Read(t *testing.T) (all []sinktest.Stored) {
	t.Helper()
	scanner := bufio.NewScanner(bytes.NewReader(p.out.Bytes()))
	for scanner.Scan() {
		var line struct {
			Position uint64
			Hash     string
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("line %q: %v", scanner.Text(), err)
		}
		all = append(all, sinktest.Stored{Position: line.Position, Hash: line.Hash})
	}
	return all
}

func TestContract(t *testing.T) {
	t.Parallel()
	sinktest.Suite(t, func(*testing.T, string) sinktest.Place { return &place{} })
}

func TestBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	s := stdout.New(stdout.Config{Out: &bytes.Buffer{}, After: 7})
	if state, err := s.Resume(t.Context(), "S"); err != nil || state.Position != 7 {
		t.Errorf("resumed at %d, %v, want 7", state.Position, err)
	}
}

func TestClosedPipeStops(t *testing.T) {
	t.Parallel()
	s := stdout.New(stdout.Config{Out: closed{}})
	m := sinktest.NewWriter().Event(t, &schemas.Event{Kind: schemas.KindAdmin})
	e, err := sinks.DecodeEvent(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), sinks.Batch{Entries: []sinks.Entry{e}}); !errors.Is(err, errClosed) {
		t.Errorf("Store returned %v, want the writer's error", err)
	}
}

var errClosed = errors.New("pipe is closed")

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errClosed }
