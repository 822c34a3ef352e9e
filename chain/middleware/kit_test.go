package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/middleware"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger keeps what is recorded, until it refuses.
type ledger struct {
	refuse schemas.Kind

	mu      sync.Mutex
	records []*schemas.Record
}

func (l *ledger) Record(_ context.Context, rec *schemas.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rec.Event.Kind == l.refuse {
		return errors.New("disk full")
	}
	l.records = append(l.records, rec)
	return nil
}

func (l *ledger) all() []*schemas.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*schemas.Record(nil), l.records...)
}

// planOf puts interceptors in force.
func planOf(tb testing.TB, list ...interceptor.Interceptor) func() *chain.Plan {
	tb.Helper()
	server, err := interceptor.New(nil, list...)
	if err != nil {
		tb.Fatal(err)
	}
	set, err := chain.NewSet(chain.SetOptions{Hosts: []chain.HostSpec{{Ref: schemas.HostRef{Host: "inprocess"}, Connect: chain.Local(server)}}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := set.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		_ = set.Run(done)
	})
	return set.Current
}

// install makes the middleware and adds it to the server.
func install(tb testing.TB, server *mcp.Server, opts middleware.Options) {
	tb.Helper()
	opts.Server = "files"
	m, err := middleware.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	server.AddReceivingMiddleware(m.Receive)
}

// dial connects a raw client to the server over pipes.
func dial(tb testing.TB, server *mcp.Server, version string) *wire.Client {
	tb.Helper()
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	session, err := server.Connect(context.Background(), &mcp.IOTransport{Reader: theirIn, Writer: theirOut}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	client := wire.NewClient(wire.NewLineConn(ourIn, ourOut, nil), &wire.ClientOptions{Probe: []string{version}})
	done := make(chan struct{})
	go func() { defer close(done); _ = client.Run(context.Background()) }()
	tb.Cleanup(func() { _ = client.Close(); <-done; _ = session.Wait() })
	if _, err := client.Initialize(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return client
}

// result is any JSON as a result of the SDK.
type result struct {
	mcp.ResultBase
	raw jsonx.Value
}

func (r *result) UnmarshalJSON(b []byte) error { r.raw = bytes.Clone(b); return nil }

func (r *result) MarshalJSON() ([]byte, error) { return r.raw, nil }
