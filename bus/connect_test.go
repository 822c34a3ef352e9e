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

// A server that cannot take what is published is refused with the reason; its greeting is all that is needed of it.
func TestUnfitServerIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info string
		want error
		say  string
	}{
		{`"version":"2.11.9","max_payload":1048576`, bus.ErrServerVersion, "2.11.9"},
		{`"version":"2.12.0","max_payload":65536`, bus.ErrMaxPayload, "65536"},
	} {
		t.Run(c.say, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer func() { _ = listener.Close() }()
			wg.Go(func() { greet(listener, &wg, c.info) })
			nc, err := bus.Connect(bus.Config{URL: "nats://" + listener.Addr().String()}, discard())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_, err = bus.WaitReady(t.Context(), nc)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.say) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.say)
			}
		})
	}
}

func greet(listener net.Listener, wg *sync.WaitGroup, info string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprintf(conn, "INFO {\"server_id\":\"x\",%s,\"headers\":true}\r\n", info)
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
