package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/embedded"
	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// stack is chaintrail's parts in one process, joined as `chaintrail up` joins them.
type stack struct {
	dir   string
	log   *slog.Logger
	group *lifecycle.Group

	js     jetstream.JetStream
	conn   driver.Conn
	outbox *outbox.Outbox
	engine *engine.Supervisor
}

func newStack(dir string, log *slog.Logger) *stack {
	return &stack{dir: dir, log: log, group: &lifecycle.Group{Drain: 20 * time.Second, Log: log}}
}

// stop ends what was started, in the opposite order.
func (s *stack) stop() error { return s.group.Stop(context.Background()) }

func (s *stack) startBus(ctx context.Context) error {
	server, err := embedded.Start(ctx, embedded.DefaultConfig(filepath.Join(s.dir, "streams")), s.log)
	if err != nil {
		return err
	}
	nc, err := bus.Connect(bus.Config{Name: "speed", InProcess: server}, s.log)
	if err != nil {
		return err
	}
	if err := s.group.Start(ctx, lifecycle.Part{
		Name:  "bus",
		Start: func(context.Context) error { return nil },
		Stop:  func(context.Context) error { nc.Close(); return server.Shutdown() },
	}); err != nil {
		return err
	}
	if s.js, err = bus.WaitReady(ctx, nc); err != nil {
		return err
	}
	return bus.Ensure(ctx, s.js, bus.DefaultStreamConfig())
}

func (s *stack) startEngine(ctx context.Context, self string) error {
	library, err := findLibrary()
	if err != nil {
		return err
	}
	supervisor, err := engine.NewSupervisor(engine.SupervisorConfig{
		Command: []string{self, roleEngine, filepath.Join(s.dir, "engine"), library}, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.engine = supervisor
	run := lifecycle.Background("engine", supervisor.Run)
	var dsn engine.DSN
	if err := s.group.Start(ctx, lifecycle.Part{
		Name: "engine",
		Start: func(ctx context.Context) (err error) {
			if dsn, err = supervisor.Start(ctx); err != nil {
				return err
			}
			return run.Start(ctx)
		},
		Stop: run.Stop,
	}); err != nil {
		return err
	}
	if s.conn, err = clickhouse.Open(string(dsn)); err != nil {
		return err
	}
	_, err = clickhouse.Migrate(ctx, s.conn, nil)
	return err
}

// findLibrary knows that this program does not lie where chaintrail does.
func findLibrary() (string, error) {
	if os.Getenv(engine.EnvLibrary) != "" {
		return engine.FindLibrary("", "", os.Getenv)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return engine.FindCheckoutLibrary(dir)
}

// letters makes a dead letter an error: there must be none.
type letters struct{}

func (letters) Put(_ context.Context, letter sinks.Letter) error {
	return fmt.Errorf("dead letter: %+v", letter)
}

// startWriters moves both streams into ClickHouse from now on.
func (s *stack) startWriters(ctx context.Context) (events, open *clickhouse.Writer, err error) {
	for _, w := range []struct {
		stream  string
		content clickhouse.Content
		to      **clickhouse.Writer
	}{
		{bus.OpenStream(0), clickhouse.ContentOpen, &open},
		{bus.EventStream(0), clickhouse.ContentEvents, &events},
	} {
		*w.to, err = clickhouse.NewWriter(clickhouse.Config{
			Content: w.content, Source: bus.NewReader(s.js, w.stream, nil, s.log), Cursors: bus.NewCursors(s.js),
			Letters: letters{}, Conn: s.conn, Options: &sinks.Options{Log: s.log},
		})
		if err != nil {
			return nil, nil, err
		}
		if err := s.group.Start(ctx, lifecycle.Background("store "+w.stream, (*w.to).Run)); err != nil {
			return nil, nil, err
		}
	}
	return events, open, nil
}

// startJournal opens an outbox and publishes what it records.
func (s *stack) startJournal(ctx context.Context) (err error) {
	if s.outbox, err = outbox.Open(ctx, outbox.Config{Dir: filepath.Join(s.dir, "journals"), Gateway: "bench"}, s.log); err != nil {
		return err
	}
	if err := s.group.Start(ctx, lifecycle.Background("journal", s.outbox.Run)); err != nil {
		return err
	}
	publisher, err := bus.NewPublisher(s.js, s.outbox, bus.PublisherConfig{Writer: s.outbox.Writer()}, s.log)
	if err != nil {
		return err
	}
	publish := lifecycle.Background("publisher", publisher.Run)
	stop := publish.Stop
	publish.Stop = func(ctx context.Context) error {
		_ = s.outbox.Close(ctx)
		return stop(ctx)
	}
	return s.group.Start(ctx, publish)
}
