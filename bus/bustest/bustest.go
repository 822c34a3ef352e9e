// Package bustest gives tests a real NATS server in this process, which they can stop and start again.
package bustest

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/embedded"
)

var errStopped = errors.New("the test server is stopped")

// Server is a NATS server on a directory of its own. Its methods may be called concurrently.
type Server struct {
	tb  testing.TB
	cfg embedded.Config
	log *slog.Logger

	mu    sync.Mutex // covers the fields below
	ns    *embedded.Server
	conns []net.Conn
}

// Start starts a server that ends with the test. adjust may change its settings; nil leaves them.
func Start(tb testing.TB, adjust func(*embedded.Config)) *Server {
	tb.Helper()
	s := &Server{tb: tb, cfg: embedded.DefaultConfig(tb.TempDir()), log: slog.New(slog.DiscardHandler)}
	s.cfg.SyncInterval = time.Minute
	if adjust != nil {
		adjust(&s.cfg)
	}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// Start starts the server again on the same directory.
func (s *Server) Start() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ns != nil {
		return
	}
	ns, err := embedded.Start(s.tb.Context(), s.cfg, s.log)
	if err != nil {
		s.tb.Fatalf("start the NATS server: %v", err)
	}
	s.ns = ns
}

// Stop stops the server; connections stay and come back after Start.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ns == nil {
		return
	}
	if err := s.ns.Shutdown(); err != nil {
		s.tb.Errorf("stop the NATS server: %v", err)
	}
	s.ns, s.conns = nil, nil
}

// Cut closes every connection at once, whatever is on its way; clients reconnect by themselves.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// InProcessConn makes Server a nats.InProcessConnProvider that survives restarts.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ns == nil {
		return nil, errStopped
	}
	c, err := s.ns.InProcessConn()
	if err == nil {
		s.conns = append(s.conns, c)
	}
	return c, err
}

// Conn returns a connection of its own that ends with the test and reconnects within milliseconds.
func (s *Server) Conn() *nats.Conn {
	s.tb.Helper()
	nc, err := bus.Connect(bus.Config{InProcess: s, Name: s.tb.Name(), ReconnectWait: 5 * time.Millisecond}, s.log)
	if err != nil {
		s.tb.Fatalf("connect: %v", err)
	}
	s.tb.Cleanup(nc.Close)
	return nc
}

// JetStream returns a JetStream context on a connection of its own.
func (s *Server) JetStream() jetstream.JetStream {
	s.tb.Helper()
	js, err := bus.WaitReady(s.tb.Context(), s.Conn())
	if err != nil {
		s.tb.Fatalf("JetStream: %v", err)
	}
	return js
}

// Shard returns a JetStream context with the streams of shard 0 made. adjust may be nil.
func (s *Server) Shard(adjust func(*bus.StreamConfig)) jetstream.JetStream {
	s.tb.Helper()
	js := s.JetStream()
	cfg := bus.DefaultStreamConfig()
	if adjust != nil {
		adjust(&cfg)
	}
	if err := bus.Ensure(s.tb.Context(), js, cfg); err != nil {
		s.tb.Fatalf("make streams: %v", err)
	}
	return js
}
