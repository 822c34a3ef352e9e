package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/internal/telemetry"
	"github.com/chaintrail/chaintrail/sinks"
)

var (
	errJournalBroken = errors.New("the journal's disk failed to sync")
	errJournalFull   = errors.New("the journal is full: calls are refused")
)

// serveTelemetry serves metrics and health of the parts that were started before it.
func (n *node) serveTelemetry(ctx context.Context) error {
	if n.cfg.Gateway.Metrics == "" {
		return nil
	}
	registry := telemetry.NewRegistry()
	n.journalMetrics(registry)
	if n.store != nil {
		storeMetrics(registry, "store_events", n.store.events.Stats)
		storeMetrics(registry, "store_open", n.store.open.Stats)
	}
	if n.seal != nil {
		sealMetrics(registry, n.seal.sealer.Stats)
	}
	registry.MustRegister(newBreakerMetrics(func() []chain.BreakerState {
		if f := n.force.Load(); f != nil {
			return f.breakers.States()
		}
		return nil
	}))
	server, err := telemetry.Listen(ctx, n.cfg.Gateway.Metrics, registry, n.ready)
	if err != nil {
		return withHint(err, "set gateway.metrics to a free address, or leave it out")
	}
	server.Handle("GET /plan", http.HandlerFunc(n.servePlan))
	n.log.InfoContext(ctx, "metrics", slog.String("url", server.URL()+"/metrics"))
	return n.group.Start(ctx, lifecycle.Background("telemetry", server.Run))
}

// ready is what stands in the way of recording.
func (n *node) ready() error {
	s := n.outbox.Stats()
	switch {
	case s.Broken:
		return errJournalBroken
	case s.UsedBytes*10 >= s.MaxBytes*9:
		return errJournalFull
	}
	return nil
}

func (n *node) journalMetrics(r prometheus.Registerer) {
	for _, m := range []struct {
		counter    bool
		name, help string
		read       func(*outbox.Stats) float64
	}{
		{true, "events_total", "Events journaled by this process.", func(s *outbox.Stats) float64 { return float64(s.Records) }},
		{true, "bytes_total", "Bytes journaled by this process.", func(s *outbox.Stats) float64 { return float64(s.Bytes) }},
		{true, "refused_total", "Records that could not be journaled.", func(s *outbox.Stats) float64 { return float64(s.Refused) }},
		{true, "shed_total", "Exchanges that passed unrecorded.", func(s *outbox.Stats) float64 { return float64(s.Shed) }},
		{true, "write_errors_total", "Writes that the disk refused.", func(s *outbox.Stats) float64 { return float64(s.WriteErrors) }},
		{false, "backlog_events", "Events journaled and not yet published.", func(s *outbox.Stats) float64 { return float64(s.Seq - min(s.Published, s.Seq)) }},
		{false, "unreleased_events", "Events journaled and not yet known to be stored.", func(s *outbox.Stats) float64 { return float64(s.Seq - min(s.Released, s.Seq)) }},
		{false, "used_bytes", "Size of this writer's journal.", func(s *outbox.Stats) float64 { return float64(s.UsedBytes) }},
		{false, "max_bytes", "Bound of this writer's journal.", func(s *outbox.Stats) float64 { return float64(s.MaxBytes) }},
		{false, "open_exchanges", "Exchanges without an outcome.", func(s *outbox.Stats) float64 { return float64(s.OpenExchanges) }},
	} {
		register := telemetry.Gauge
		if m.counter {
			register = telemetry.Counter
		}
		register(r, "journal", m.name, m.help, func() float64 {
			s := n.outbox.Stats()
			return m.read(&s)
		})
	}
}

func storeMetrics(r prometheus.Registerer, subsystem string, stats func() sinks.Stats) {
	for _, m := range []struct {
		counter    bool
		name, help string
		read       func(*sinks.Stats) float64
	}{
		{true, "stored_total", "Messages stored by this process.", func(s *sinks.Stats) float64 { return float64(s.Stored) }},
		{true, "duplicates_total", "Messages that were stored before.", func(s *sinks.Stats) float64 { return float64(s.Duplicates) }},
		{true, "holes_total", "Numbers of writers that were missing when a later one came.", func(s *sinks.Stats) float64 { return float64(s.Holes) }},
		{true, "forks_total", "Two events under one number: an alarm.", func(s *sinks.Stats) float64 { return float64(s.Forks) }},
		{true, "undecodable_total", "Messages that went to the dead letters.", func(s *sinks.Stats) float64 { return float64(s.Undecodable) }},
		{false, "position", "Stream position up to which all is stored.", func(s *sinks.Stats) float64 { return float64(s.Position) }},
		{false, "lag_messages", "Messages read and not yet stored.", func(s *sinks.Stats) float64 { return float64(s.Read - min(s.Position, s.Read)) }},
		{false, "age_seconds", "Time since the newest stored message was published.", func(s *sinks.Stats) float64 {
			if s.Published.IsZero() {
				return 0
			}
			return time.Since(s.Published).Seconds()
		}},
	} {
		register := telemetry.Gauge
		if m.counter {
			register = telemetry.Counter
		}
		register(r, subsystem, m.name, m.help, func() float64 {
			s := stats()
			return m.read(&s)
		})
	}
}
