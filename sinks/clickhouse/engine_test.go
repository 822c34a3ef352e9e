package clickhouse_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

// The engine is killed under load, again and again, also between an insert and its answer.
func TestKilledEngine(t *testing.T) {
	t.Parallel()
	supervisor, err := engine.NewSupervisor(engine.SupervisorConfig{
		Command: []string{enginetest.Child(t), "-data", t.TempDir(), "-library", enginetest.Library(t)},
		Restart: retry.Policy{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := supervisor.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("supervisor: %v", err)
		}
	}()
	go func() { ended <- supervisor.Run(ctx) }()
	conn, err := clickhouse.Open(string(dsn))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := clickhouse.Migrate(t.Context(), conn, nil); err != nil {
		t.Fatal(err)
	}
	r := &rig{conn: conn, stream: sinktest.NewStream("CHAINTRAIL_0"), opts: sinks.Options{Linger: -1, MaxMessages: 40, Retry: fast}}
	w := sinktest.NewWriter()
	writer := r.writer(t)
	go func() { ended <- writer.Run(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for round := range 5 {
		goal := r.stream.Last() + 400
		for i := 0; r.stream.Last() < goal; i++ {
			r.stream.Add(w.Call(t, "echo", "ann", schemas.OutcomeAllowed, "{}").Events...)
			if i == 20+37*round {
				if err := syscall.Kill(supervisor.PID(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if i%8 == 0 {
				<-tick.C
			}
		}
		for writer.Stats().Position < goal {
			select {
			case err := <-ended:
				t.Fatalf("ended in round %d: %v", round, err)
			case <-tick.C:
			}
		}
	}
	r.exact(t, r.stream.Last()/2)
	r.clean(t)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("writer or supervisor: %v", err)
	}
}
