package bustest

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/bus"
)

// Cluster is three NATS servers that keep three replicas of each stream. Its methods may be called concurrently.
type Cluster struct {
	tb    testing.TB
	names []string
	urls  []string
	opts  []*server.Options

	mu      sync.Mutex // covers servers
	servers []*server.Server
}

// StartCluster starts a cluster that ends with the test.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	const size = 3
	c := &Cluster{tb: tb, servers: make([]*server.Server, size)}
	routes := make([]string, size)
	ports := freePorts(tb, 2*size)
	for i := range size {
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", ports[size+i])
	}
	for i := range size {
		o := &server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: tb.TempDir(), JetStreamMaxStore: 4 << 30, JetStreamMaxMemory: 64 << 20,
			MaxPayload: 8 << 20, MaxPending: 64 << 20, SyncInterval: time.Minute,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[size+i]},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		}
		o.JetStreamLimits.MaxBatchInflightPerStream = 1000
		o.JetStreamLimits.MaxBatchInflightTotal = 4000
		c.opts, c.names = append(c.opts, o), append(c.names, o.ServerName)
		c.urls = append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	for i := range size {
		c.Start(i)
	}
	tb.Cleanup(func() {
		for i := range size {
			c.Stop(i)
		}
	})
	return c
}

// freePorts finds ports that nobody listens on. Members must know each other's before they start.
func freePorts(tb testing.TB, count int) (ports []int) {
	tb.Helper()
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, at once
		if err != nil {
			tb.Fatalf("find a port: %v", err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // it listens on tcp
	}
	return ports
}

// Start starts a member again on its directory.
func (c *Cluster) Start(member int) {
	c.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers[member] != nil {
		return
	}
	s, err := server.NewServer(c.opts[member].Clone())
	if err != nil {
		c.tb.Fatalf("make member %d: %v", member, err)
	}
	s.Start()
	c.servers[member] = s
}

// Stop stops a member; those connected to it go to another.
func (c *Cluster) Stop(member int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.servers[member]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[member] = nil
	}
}

// Leader is the member that leads a stream, -1 while none does.
func (c *Cluster) Leader(stream string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.servers {
		if s != nil && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return i
		}
	}
	return -1
}

// JetStream returns a JetStream context on a connection of its own to any member.
func (c *Cluster) JetStream() jetstream.JetStream {
	c.tb.Helper()
	log := slog.New(slog.DiscardHandler)
	nc, err := bus.Connect(bus.Config{URL: strings.Join(c.urls, ","), Name: c.tb.Name(), ReconnectWait: 20 * time.Millisecond}, log)
	if err != nil {
		c.tb.Fatalf("connect: %v", err)
	}
	c.tb.Cleanup(nc.Close)
	js, err := bus.WaitReady(c.tb.Context(), nc)
	if err != nil {
		c.tb.Fatalf("JetStream: %v", err)
	}
	return js
}
