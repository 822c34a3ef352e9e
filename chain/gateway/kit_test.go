package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"uuid"

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

// ledger is a recorder that keeps everything.
type ledger struct {
	mu   sync.Mutex
	all  []*schemas.Record
	fail func(*schemas.Record) error
	wake chan struct{}
}

func newLedger() *ledger { return &ledger{wake: make(chan struct{})} }

func (l *ledger) Record(_ context.Context, rec *schemas.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(rec); err != nil {
			return err
		}
	}
	l.all = append(l.all, rec)
	close(l.wake)
	l.wake = make(chan struct{})
	return nil
}

func (l *ledger) records() []*schemas.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*schemas.Record(nil), l.all...)
}

// waitFor waits until the records hold what ok looks for.
func (l *ledger) waitFor(t *testing.T, what string, ok func([]*schemas.Record) bool) {
	t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		l.mu.Lock()
		done, wake := ok(l.all), l.wake
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-wake:
		case <-limit.C:
			t.Fatalf("no record of %s within 10 s; have %v", what, l.lines())
		}
	}
}

func (l *ledger) waitOutcome(t *testing.T, method string, outcome schemas.Outcome) *schemas.Record {
	t.Helper()
	var found *schemas.Record
	l.waitFor(t, method+" "+string(outcome), func(all []*schemas.Record) bool {
		for _, r := range all {
			if r.Event.Kind == schemas.KindOutcome && r.Event.Operation.Event == method && r.Event.Decision.Outcome == outcome {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// waitRequest waits for the request event of a method.
func (l *ledger) waitRequest(t *testing.T, method string) {
	t.Helper()
	l.waitFor(t, "request "+method, func(all []*schemas.Record) bool {
		for _, r := range all {
			if r.Event.Kind == schemas.KindRequest && r.Event.Operation.Event == method {
				return true
			}
		}
		return false
	})
}

func (l *ledger) lines() []string {
	var out []string
	for _, r := range l.records() {
		line := string(r.Event.Kind) + " " + r.Event.Operation.Event
		if r.Event.Kind == schemas.KindOutcome {
			line += " " + string(r.Event.Decision.Outcome) + " " + r.Event.Decision.Cause
		}
		out = append(out, line)
	}
	return out
}

// check fails unless every exchange has exactly one request event, followed by exactly one outcome.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	state := map[uuid.UUID]int{}
	for _, r := range l.records() {
		id := r.Event.Correlation.Exchange
		switch r.Event.Kind {
		case schemas.KindRequest:
			if state[id] != 0 {
				t.Errorf("exchange %s: second request event, or one after the outcome", id)
			}
			state[id] = 1
		case schemas.KindOutcome:
			if state[id] != 1 {
				t.Errorf("exchange %s: outcome in state %d, want 1", id, state[id])
			}
			state[id] = 2
			if r.Event.Decision.Outcome == "" {
				t.Errorf("exchange %s: no outcome", id)
			}
		default:
			t.Errorf("event of kind %s", r.Event.Kind)
		}
	}
	for id, s := range state {
		if s != 2 {
			t.Errorf("exchange %s has no outcome", id)
		}
	}
	if t.Failed() {
		t.Log(l.lines())
	}
}

func item(r *schemas.Record, role schemas.Role) []byte {
	for _, it := range r.Items {
		if it.Role == role {
			return it.Data
		}
	}
	return nil
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

// sdkServer is a real server with the tools that the tests need.
// Its tool "hang" ends with its call, or with stop: the go-sdk forgets to end a call whose client left
// at once.
func sdkServer(stop <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "backend", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	type args struct {
		Text string `json:"text,omitempty"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return text(a.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("it failed")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"}, func(ctx context.Context, r *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)})
			if err != nil {
				return nil, nil, err
			}
		}
		return text("done"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "elicit"}, func(ctx context.Context, r *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?", RequestedSchema: jsonx.Value(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return text("refused: " + err.Error()), nil, nil //nolint:nilerr // the test reads it in the result
		}
		name, _ := res.Content["name"].(string)
		return text(res.Action + " " + name), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		select {
		case <-ctx.Done():
		case <-stop:
		}
		return nil, nil, context.Canceled
	})
	mcp.AddTool(s, &mcp.Tool{Name: "update"}, func(ctx context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return text("ok"), nil, s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://" + a.Text})
	})
	s.AddTool(&mcp.Tool{Name: "rounds", InputSchema: jsonx.Value(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if res, ok := r.Params.InputResponses["who"].(*mcp.ElicitResult); ok {
			name, _ := res.Content["name"].(string)
			return text(name), nil
		}
		ask := &mcp.ElicitParams{Message: "who?", RequestedSchema: jsonx.Value(`{"type":"object","properties":{"name":{"type":"string"}}}`)}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"who": ask}, RequestState: "state"}, nil
	})
	s.AddResource(&mcp.Resource{URI: "test://r", Name: "r"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://r", Text: "r"}}}, nil
	})
	return s
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func textOf(t *testing.T, res *mcp.CallToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	if len(res.Content) != 1 {
		t.Fatalf("got %d contents, want 1", len(res.Content))
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func runChild(kind string) {
	switch kind {
	case "crash":
		os.Exit(3)
	case "noisy":
		_, _ = os.Stdout.WriteString("starting up …\n{\"level\":\"info\"}\n{{{\n\n")
		_ = sdkServer(nil).Run(context.Background(), &mcp.StdioTransport{})
	case "dies":
		s := sdkServer(nil)
		mcp.AddTool(s, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			os.Exit(9)
			return nil, nil, nil
		})
		_ = s.Run(context.Background(), &mcp.StdioTransport{})
	case "sdk":
		_ = sdkServer(nil).Run(context.Background(), &mcp.StdioTransport{})
	}
}

// backend is one that a gateway can stand before, by the way it is reached.
func backend(t *testing.T, kind string, p *fakePlan) Backend {
	t.Helper()
	b := Backend{Name: "b", Plan: planOf(p)}
	switch kind {
	case "http", "http-json", "stateless":
		stop := make(chan struct{})
		s := sdkServer(stop)
		h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{
			Stateless: kind == "stateless", JSONResponse: kind == "http-json",
		})
		srv := httptest.NewServer(h)
		t.Cleanup(func() {
			close(stop)
			srv.Close()
			for ss := range s.Sessions() { // those whose client could not say goodbye
				_ = ss.Close()
			}
		})
		b.URL = srv.URL
	default:
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		b.Command, b.Env, b.Shared = []string{exe}, map[string]string{childEnv: "sdk"}, kind == "shared"
	}
	return b
}

// connect makes a real client at an HTTP endpoint.
func connect(t *testing.T, url string, opts *mcp.ClientOptions, version string) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, opts)
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
		t.Run(c.client+" to "+c.backend+" "+c.version, func(t *testing.T) {
			t.Parallel()
			opts := Options{Backends: []Backend{backend(t, c.backend, p)}}
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
