package clickhouse_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a migrated database of the test's own on the real engine.
func store(tb testing.TB) driver.Conn {
	tb.Helper()
	conn, err := clickhouse.Open(enginetest.Start(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if _, err := clickhouse.Migrate(tb.Context(), conn, nil); err != nil {
		tb.Fatal(err)
	}
	return conn
}

func count(tb testing.TB, conn driver.Conn, query string) uint64 {
	tb.Helper()
	var n uint64
	if err := conn.QueryRow(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}

var fast = retry.Policy{Initial: time.Millisecond, Max: 5 * time.Millisecond, Notify: func(error, int, time.Duration) {}}

// rig is a stream with what a writer of it needs.
type rig struct {
	conn     driver.Conn
	stream   *sinktest.Stream
	content  clickhouse.Content
	cursors  sinktest.Cursors
	letters  sinktest.Letters
	opts     sinks.Options
	sabotage string
}

func newRig(tb testing.TB, name string, content clickhouse.Content) *rig {
	tb.Helper()
	return &rig{conn: store(tb), stream: sinktest.NewStream(name), content: content, opts: sinks.Options{Linger: -1, Retry: fast}}
}

func (r *rig) writer(tb testing.TB) *clickhouse.Writer {
	tb.Helper()
	w, err := clickhouse.NewWriter(clickhouse.Config{
		Content: r.content, Source: &sinktest.Source{Stream: r.stream}, Cursors: &r.cursors, Letters: &r.letters, Conn: r.conn,
		Options: &r.opts, Sabotage: r.sabotage,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// drain runs a new writer until it stored everything, and returns its statistics.
func (r *rig) drain(tb testing.TB) sinks.Stats {
	tb.Helper()
	w := r.writer(tb)
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for w.Stats().Position < r.stream.Last() {
		select {
		case err := <-done:
			tb.Fatalf("writer stopped at %d: %v", w.Stats().Position, err)
		case <-tick.C:
		case <-tb.Context().Done():
			tb.Fatal("writer did not finish")
		}
	}
	cancel()
	if err := <-done; err != nil {
		tb.Fatalf("writer: %v", err)
	}
	return w.Stats()
}

// clean fails the test when something went to the dead letters.
func (r *rig) clean(tb testing.TB) {
	tb.Helper()
	if reasons := r.letters.Reasons(); len(reasons) > 0 {
		tb.Errorf("dead letters: %v", reasons)
	}
}

var errCrash = errors.New("the process dies here")
