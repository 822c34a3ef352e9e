package gateway

import (
	"bytes"
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// childEnv makes the test binary a stdio server, so that children are real processes.
const childEnv = "GATEWAY_TEST_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		runChild(kind)
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// fakePlan is a plan made of functions: what interceptors do is package chain's matter.
type fakePlan struct {
	matches func(event string, phase schemas.Phase) bool
	run     func(ctx context.Context, in chain.Input) chain.Result
}

func (p *fakePlan) Matches(event string, phase schemas.Phase) bool {
	return p.matches == nil || p.matches(event, phase)
}

func (p *fakePlan) Digest() seal.Hash { return seal.Hash{1} }

func (p *fakePlan) Run(ctx context.Context, in chain.Input) chain.Result {
	res := p.run(ctx, in)
	if res.Status == "" {
		res.Status = schemas.StatusSuccess
	}
	if res.Payload == nil {
		res.Payload = in.Payload
	}
	return res
}

func deny(in chain.Input) chain.Result {
	return chain.Result{Status: schemas.StatusValidationFailed, Denial: &chain.Denial{
		Interceptor: "acme/dlp", Type: "validation", Phase: in.Phase, Code: -32602, Message: "Interceptor validation failed",
		Data: jsonx.Value(`{"validationErrors":[]}`), Reason: "because",
	}}
}

// front serves the gateway over HTTP.
type front struct {
	*Gateway
	ledger *ledger
	url    string // of backend "b"

	unbalanced *atomic.Bool // the test makes the recorder fail, so that events are missing
}

func serve(t *testing.T, opts Options) *front {
	t.Helper()
	l := newLedger()
	if opts.Recorder == nil {
		opts.Recorder = l
	}
	opts.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	g, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g.Handler())
	f := &front{Gateway: g, ledger: l, url: s.URL + "/b/mcp", unbalanced: new(atomic.Bool)}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		s.Close()
		if !f.unbalanced.Load() {
			l.check(t)
		}
	})
	return f
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(b)))
	return len(b), nil
}

func planOf(p *fakePlan) func() Plan {
	if p == nil {
		return nil
	}
	return func() Plan { return p }
}

// post sends raw bytes and returns status and body.
func postRaw(t *testing.T, url string, body []byte, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, out
}

// backend is one that a gateway can stand before, by the way it is reached.
func backend(t *testing.T, kind string, p *fakePlan) Backend {
	t.Helper()
	b := Backend{Name: "b", Plan: planOf(p)}
	switch kind {
	case "http", "http-json", "stateless":
		stop := make(chan struct{})
		b.URL = serveSDK(t, sdkServer(stop), &mcp.StreamableHTTPOptions{Stateless: kind == "stateless", JSONResponse: kind == "http-json"})
		t.Cleanup(func() { close(stop) })
	default:
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		b.Command, b.Env, b.Shared = []string{exe}, map[string]string{childEnv: "sdk"}, kind == "shared"
	}
	return b
}

// serveSDK serves a real server over HTTP.
func serveSDK(t *testing.T, s *mcp.Server, opts *mcp.StreamableHTTPOptions) (url string) {
	t.Helper()
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts))
	t.Cleanup(func() {
		srv.Close()
		for ss := range s.Sessions() { // those whose client could not say goodbye
			_ = ss.Close()
		}
	})
	return srv.URL
}

// connect makes a real client at an HTTP endpoint.
func connect(t *testing.T, url string, opts *mcp.ClientOptions, version string) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, opts)
	if err := chain.PrepareClient(c); err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: hc, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

func replace(v jsonx.Value, from, to string) jsonx.Value {
	return bytes.ReplaceAll(v, []byte(from), []byte(to))
}

func elements(raw []byte) iter.Seq[jsonx.Value] { return jsonx.Elements(raw) }

func mustParse(t *testing.T, raw []byte) wire.Message {
	t.Helper()
	msg, err := wire.Parse(raw, wire.Limits{Lenient: true})
	if err != nil {
		t.Fatalf("parse %s: %v", raw, err)
	}
	return msg
}

// way is a client on its way to a server.
type way struct {
	*front
	version string
	json    bool // the backend answers without streams
	connect func(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession
}

// eachWay runs a test over all four combinations and both protocol generations.
func eachWay(t *testing.T, p *fakePlan, test func(t *testing.T, w way)) {
	t.Helper()
	someWays(t, p, func(string) bool { return true }, test)
}

// eachLegacyWay leaves out 2026-07-28, in which servers make no requests.
func eachLegacyWay(t *testing.T, p *fakePlan, test func(t *testing.T, w way)) {
	t.Helper()
	someWays(t, p, func(version string) bool { return version == legacy }, test)
}

// eachWayWith sets the options of each gateway; its backend is the first.
func eachWayWith(t *testing.T, set func(o *Options), test func(t *testing.T, w way)) {
	t.Helper()
	manyWays(t, set, func(string) bool { return true }, test)
}

func someWays(t *testing.T, p *fakePlan, wanted func(version string) bool, test func(t *testing.T, w way)) {
	t.Helper()
	manyWays(t, func(o *Options) { o.Backends[0].Plan = planOf(p) }, wanted, test)
}

func manyWays(t *testing.T, set func(o *Options), wanted func(version string) bool, test func(t *testing.T, w way)) {
	t.Helper()
	for _, c := range []struct{ client, backend, version string }{
		{"http", "http", legacy},
		{"http", "http-json", legacy},
		{"http", "stateless", version20260728},
		{"http", "stdio", legacy},
		{"http", "shared", legacy},
		{"http", "shared", version20260728},
		{"stdio", "stdio", legacy},
		{"stdio", "stdio", version20260728},
		{"stdio", "http", legacy},
		{"stdio", "stateless", version20260728},
	} {
		if !wanted(c.version) {
			continue
		}
		t.Run(c.client+" to "+c.backend+" "+c.version, func(t *testing.T) {
			t.Parallel()
			opts := Options{Backends: []Backend{backend(t, c.backend, nil)}}
			set(&opts)
			w := way{version: c.version, json: c.backend == "http-json"}
			if c.client == "http" {
				w.front = serve(t, opts)
				w.connect = func(t *testing.T, o *mcp.ClientOptions) *mcp.ClientSession {
					t.Helper()
					return connect(t, w.url, o, c.version)
				}
			} else {
				l := serveLines(t, opts)
				w.front = l.front
				w.connect = func(t *testing.T, o *mcp.ClientOptions) *mcp.ClientSession {
					t.Helper()
					return l.connect(t, o, c.version)
				}
			}
			test(t, w)
		})
	}
}
