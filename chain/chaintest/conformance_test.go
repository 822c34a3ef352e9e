package chaintest_test

import (
	"context"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type caller func(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error)

// ways are all ways of asking one server.
func ways(t *testing.T, server *interceptor.Server) map[string]caller {
	t.Helper()
	web := httptest.NewServer(server.HTTPHandler())
	t.Cleanup(web.Close)
	sdk := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	if err := server.Install(sdk); err != nil {
		t.Fatal(err)
	}
	way := map[string]caller{"in process": server.Handle}
	for _, version := range []string{wire.Version20251125, wire.Version20260728} {
		way["http "+version] = connect(t, wire.NewHTTPClient(web.URL, nil), version)
		way["stdio "+version] = connect(t, overPipes(t, func(r, w *os.File) {
			if err := server.ServeStdio(context.Background(), r, w); err != nil {
				t.Errorf("ServeStdio: %v", err)
			}
		}), version)
		way["sdk stdio "+version] = connect(t, overPipes(t, func(r, w *os.File) {
			session, err := sdk.Connect(context.Background(), &mcp.IOTransport{Reader: r, Writer: w}, nil)
			if err != nil {
				t.Errorf("Connect: %v", err)
				return
			}
			_ = session.Wait()
		}), version)
	}
	return way
}

func overPipes(t *testing.T, serve func(r, w *os.File)) wire.Conn {
	t.Helper()
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); serve(theirIn, theirOut) }()
	t.Cleanup(func() { <-done })
	return wire.NewLineConn(ourIn, ourOut, nil)
}

func connect(t *testing.T, conn wire.Conn, version string) caller {
	t.Helper()
	client := wire.NewClient(conn, &wire.ClientOptions{Probe: []string{version}})
	done := make(chan struct{})
	go func() { defer close(done); _ = client.Run(context.Background()) }()
	t.Cleanup(func() { _ = client.Close(); <-done })
	server, err := client.Initialize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := server.Extension(interceptor.ExtensionName); !ok || server.ProtocolVersion != version {
		t.Errorf("server speaks %s, want %s; capabilities are %s", server.ProtocolVersion, version, server.Capabilities)
	}
	return client.Call
}

// The list and invoke steps of the suite, each over every way.
func TestFixturesOverEveryWay(t *testing.T) {
	t.Parallel()
	fixtures, err := chaintest.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	if len(fixtures) != chaintest.Total {
		t.Errorf("%d fixtures, want %d", len(fixtures), chaintest.Total)
	}
	ran := 0
	for _, f := range fixtures {
		if op := f.Steps[0].Op; op != "list" && op != "invoke" {
			continue
		}
		ran++
		t.Run(f.ID, func(t *testing.T) {
			t.Parallel()
			bound, err := f.Bind()
			if err != nil {
				t.Fatal(err)
			}
			server, err := interceptor.New(nil, bound...)
			if err != nil {
				t.Fatal(err)
			}
			for way, call := range ways(t, server) {
				for _, step := range f.Steps {
					if err := runStep(t.Context(), &f, &step, call); err != nil {
						t.Errorf("%s: %v", way, err)
					}
				}
			}
		})
	}
	if ran != 7 {
		t.Errorf("%d fixtures list or invoke, want 7", ran)
	}
}

func runStep(ctx context.Context, f *chaintest.Fixture, step *chaintest.Step, call caller) error {
	method, params := step.Request()
	result, err := call(ctx, method, params)
	return f.CheckAnswer(step, result, err)
}

// Every behaviour that the fixtures name can be bound.
func TestEveryFixtureBinds(t *testing.T) {
	t.Parallel()
	fixtures, err := chaintest.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fixtures {
		if _, err := f.Bind(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range chaintest.Behaviors() {
		if _, err := chaintest.Behavior(name, interceptor.Descriptor{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := chaintest.Behavior("nope", interceptor.Descriptor{}); err == nil {
		t.Error("an unknown behaviour was bound")
	}
}
