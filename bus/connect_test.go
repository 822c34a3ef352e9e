package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
)

func TestConnectBeforeTheServer(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t, nil)
	server.Stop()
	nc := server.Conn()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := bus.WaitReady(ctx, nc); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a server it is ready (%v)", err)
	}
	server.Start()
	if _, err := bus.WaitReady(t.Context(), nc); err != nil {
		t.Errorf("with a server: %v", err)
	}
}

// A server that is too old is refused with its version; the greeting is all that is needed of it.
func TestOldServerIsRefused(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = listener.Close() }()
	wg.Go(func() { greet(listener, &wg) })
	nc, err := bus.Connect(bus.Config{URL: "nats://" + listener.Addr().String()}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, err = bus.WaitReady(t.Context(), nc)
	if !errors.Is(err, bus.ErrServerVersion) || !strings.Contains(fmt.Sprint(err), "2.11.9") {
		t.Errorf("an old server gives %v, want %v with its version", err, bus.ErrServerVersion)
	}
}

func greet(listener net.Listener, wg *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprintf(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.11.9\",\"max_payload\":1048576,\"headers\":true}\r\n")
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if lines.Text() == "PING" {
					_, _ = fmt.Fprint(conn, "PONG\r\n")
				}
			}
		})
	}
}

func TestConfigOfConnection(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []bus.Config{
		{},
		{URL: "nats://127.0.0.1:1", Token: "a", TokenFile: "b"},
		{URL: "nats://127.0.0.1:1", CertFile: "a"},
		{URL: "nats://127.0.0.1:1", TokenFile: filepath.Join(empty, "missing")},
		{URL: "nats://127.0.0.1:1", TokenFile: empty},
		{URL: "nats://127.0.0.1:1", ReconnectWait: -1},
	} {
		if nc, err := bus.Connect(cfg, discard()); err == nil {
			nc.Close()
			t.Errorf("settings %+v are taken", cfg)
		}
	}
}
