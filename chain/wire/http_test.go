package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestHTTPClientWithSDKServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, version string
		opts          mcp.StreamableHTTPOptions
	}{
		{"sessions, events", wire.Version20251125, mcp.StreamableHTTPOptions{}},
		{"sessions, JSON", wire.Version20250618, mcp.StreamableHTTPOptions{JSONResponse: true}},
		{"stateless", wire.Version20251125, mcp.StreamableHTTPOptions{Stateless: true}},
		{"2026-07-28, events", wire.Version20260728, mcp.StreamableHTTPOptions{Stateless: true}},
		{"2026-07-28, JSON", wire.Version20260728, mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := newSDKServer()
			var deletes atomic.Int32
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &tt.opts)
			ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					deletes.Add(1)
				}
				handler.ServeHTTP(w, r)
			}))
			defer ts.Close()
			conn := wire.NewHTTPClient(ts.URL, nil)
			client := runClient(t, conn, &wire.ClientOptions{Probe: []string{tt.version}})
			exerciseSDK(t, client, tt.version)
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					want := fmt.Sprintf(`{"n":%d}`, i)
					got, err := client.Call(t.Context(), "echo", jsonx.Value(want))
					if n, _ := wire.Member(got, "n"); err != nil || string(n) != strconv.Itoa(i) {
						t.Errorf("Call %d: %s, %v", i, got, err)
					}
				})
			}
			wg.Wait()
			if err := conn.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if sessions := !tt.opts.Stateless; sessions != (deletes.Load() == 1) {
				t.Errorf("%d sessions were deleted", deletes.Load())
			}
			if err := conn.Send(t.Context(), []byte(`{}`), nil); !errors.Is(err, wire.ErrClosed) {
				t.Errorf("Send after Close: %v, want ErrClosed", err)
			}
		})
	}
}

// The generation that does not answer must not keep the other from being found.
func TestHTTPClientProbesBothGenerations(t *testing.T) {
	t.Parallel()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newSDKServer() }, nil)
	ts := httptest.NewServer(handler)
	t.Cleanup(ts.Close)
	client := runClient(t, wire.NewHTTPClient(ts.URL, nil), &wire.ClientOptions{Probe: []string{wire.Version20260728, wire.Version20251125}})
	server, err := client.Initialize(t.Context())
	if err != nil || server.ProtocolVersion != wire.Version20251125 {
		t.Errorf("Initialize: %+v, %v", server, err)
	}
}

// handlerClient runs a client against a handler; "ID" in its answers becomes the id of the request.
func handlerClient(t *testing.T, opts *wire.HTTPOptions, handler func(w http.ResponseWriter, r *http.Request, id string)) *wire.Client {
	t.Helper()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg, _ := wire.Parse(body, wire.Limits{})
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler(w, r, string(msg.ID))
	}))
	t.Cleanup(ts.Close)
	return runClient(t, wire.NewHTTPClient(ts.URL, opts), nil)
}

func TestHTTPClientOddAnswers(t *testing.T) {
	t.Parallel()
	jsonAnswer := func(status int, body string) func(w http.ResponseWriter, r *http.Request, id string) {
		return func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "ID", id))
		}
	}
	events := func(body string) func(w http.ResponseWriter, r *http.Request, id string) {
		return func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "ID", id))
		}
	}
	tests := []struct {
		name    string
		handler func(w http.ResponseWriter, r *http.Request, id string)
		want    string
		is      error
		code    int
		status  int
	}{
		{name: "JSON", handler: jsonAnswer(200, `{"jsonrpc":"2.0","id":ID,"result":1}`), want: `1`},
		{name: "batch", handler: jsonAnswer(200, `[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":ID,"result":2}]`), want: `2`},
		{name: "events", handler: events("data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":ID,\"result\":3}\n\n"), want: `3`},
		{name: "other id", handler: jsonAnswer(200, `{"jsonrpc":"2.0","id":"x","result":1}`), is: wire.ErrNoAnswer},
		{name: "no answer in events", handler: events("data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n"), is: wire.ErrNoAnswer},
		{name: "nothing", handler: jsonAnswer(202, ``), is: wire.ErrNoAnswer},
		{name: "not JSON", handler: jsonAnswer(200, `<html>`), is: wire.ErrNoAnswer},
		{name: "404 with error", handler: jsonAnswer(404, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"m"}}`), code: -32601},
		{name: "400, id null", handler: jsonAnswer(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"m"}}`), code: -32602},
		{name: "503", handler: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, status: 503},
		{name: "401 with JSON", handler: jsonAnswer(401, `{"error":"invalid_token"}`), status: 401},
		{name: "too large", handler: jsonAnswer(200, `{"jsonrpc":"2.0","id":ID,"result":"`+strings.Repeat("x", 2000)+`"}`), is: wire.ErrTooLarge},
		{name: "too large event", handler: events("data: " + strings.Repeat("x", 2000) + "\n\n"), is: wire.ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := handlerClient(t, &wire.HTTPOptions{MaxMessage: 1000}, tt.handler)
			got, err := client.Call(t.Context(), "m", nil)
			if string(got) != tt.want {
				t.Errorf("result is %s, want %s (%v)", got, tt.want, err)
			}
			if (tt.want == "") != (err != nil) || (tt.is != nil && !errors.Is(err, tt.is)) {
				t.Errorf("error is %v, want %v", err, tt.is)
			}
			if e, ok := errors.AsType[*wire.RPCError](err); tt.code != 0 && (!ok || e.Code != tt.code) {
				t.Errorf("error is %v, want code %d", err, tt.code)
			}
			if e, ok := errors.AsType[*wire.StatusError](err); tt.status != 0 && (!ok || e.Status != tt.status) {
				t.Errorf("error is %v, want status %d", err, tt.status)
			}
		})
	}
}

func initializeAnswer(w http.ResponseWriter, id string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Mcp-Session-Id", "s1")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`, id)
}

func TestHTTPClientHeadersAndLostSession(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	lost := false
	client := handlerClient(t, &wire.HTTPOptions{Header: http.Header{"authorization": {"Bearer t"}}}, func(w http.ResponseWriter, r *http.Request, id string) {
		body, _ := io.ReadAll(r.Body)
		msg, _ := wire.Parse(body, wire.Limits{})
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, strings.Join([]string{
			r.Method, msg.Method, r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version"), r.Header.Get("Authorization"),
		}, " "))
		switch {
		case msg.Method == "initialize":
			initializeAnswer(w, id)
		case id == "":
			w.WriteHeader(http.StatusAccepted)
		case lost && msg.Method == "c":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`, id)
		case lost:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
		}
	})
	if _, err := client.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Call(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	lost = true
	mu.Unlock()
	if _, err := client.Call(t.Context(), "b", nil); !errors.Is(err, wire.ErrSessionLost) {
		t.Errorf("Call: %v, want ErrSessionLost", err)
	}
	if _, err := client.Call(t.Context(), "c", nil); !errors.Is(err, wire.ErrSessionLost) {
		t.Errorf("Call: %v, want ErrSessionLost", err)
	}
	mu.Lock()
	lost = false
	mu.Unlock()
	if _, err := client.Initialize(t.Context()); err != nil {
		t.Errorf("Initialize again: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	want := []string{
		"POST initialize   Bearer t", "POST notifications/initialized s1 2025-11-25 Bearer t",
		"POST a s1 2025-11-25 Bearer t", "POST b s1 2025-11-25 Bearer t", "POST c s1 2025-11-25 Bearer t",
		"POST initialize   Bearer t", "POST notifications/initialized s1 2025-11-25 Bearer t",
		"DELETE  s1 2025-11-25 Bearer t",
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("requests differ (-want +got):\n%s", diff)
	}
}

// The answer to a POST whose stream breaks comes on a GET with Last-Event-ID.
func TestHTTPClientResumes(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	var silent atomic.Bool
	client := handlerClient(t, nil, func(w http.ResponseWriter, r *http.Request, id string) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			asked.Store(id)
			_, _ = io.WriteString(w, "id: e1\nretry: 1\ndata:\n\n")
			return
		}
		last := r.Header.Get("Last-Event-Id")
		switch {
		case last == "e1":
			_, _ = io.WriteString(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n")
		case last == "e2" && silent.CompareAndSwap(false, true): // a stream without events keeps the place
		case last == "e2":
			_, _ = fmt.Fprintf(w, "id: e3\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":9}\n\n", asked.Load())
		default:
			t.Errorf("GET with Last-Event-ID %q", last)
		}
	})
	if got, err := client.Call(t.Context(), "m", nil); err != nil || string(got) != "9" {
		t.Errorf("Call: %s, %v", got, err)
	}
}

// The GET stream is resumed after its last event, and opened again for the session after a lost one.
func TestHTTPClientListens(t *testing.T) {
	t.Parallel()
	got := make(chan string, 4)
	var gets, sessions atomic.Int32
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg, _ := wire.Parse(body, wire.Limits{})
		if r.Method != http.MethodGet {
			if msg.Method == "initialize" {
				sessions.Add(1)
				initializeAnswer(w, string(msg.ID))
			} else {
				w.WriteHeader(http.StatusAccepted)
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch n := gets.Add(1); n {
		case 1:
			_, _ = io.WriteString(w, "id: 4\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n")
		case 2:
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"after %s\"}\n\n", r.Header.Get("Last-Event-Id"))
		case 3:
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusNotFound)
			got <- "lost"
		default:
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"session %d after %s\"}\n\n", sessions.Load(), r.Header.Get("Last-Event-Id"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(ts.Close)
	client := runClient(t, wire.NewHTTPClient(ts.URL, &wire.HTTPOptions{Listen: true}), &wire.ClientOptions{
		Notification: func(method string, _ jsonx.Value) { got <- method },
	})
	if _, err := client.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one", "after 4", "lost"} {
		if s := <-got; s != want {
			t.Errorf("notification is %q, want %q", s, want)
		}
	}
	if _, err := client.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, want := <-got, "session 2 after "; s != want {
		t.Errorf("notification is %q, want %q", s, want)
	}
}

func TestHTTPClientCancel(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}), make(chan struct{})
	client := handlerClient(t, nil, func(w http.ResponseWriter, r *http.Request, id string) {
		if id == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		close(started)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := client.Call(ctx, "m", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Call: %v, want canceled", err)
	}
	<-ended // the test's own deadline tells when the request is not ended
}

// From 2026-07-28 on the end of the POST is the cancellation: nothing else is sent.
func TestHTTPClientCancelModern(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	client := handlerClient(t, nil, func(w http.ResponseWriter, r *http.Request, id string) {
		method := r.Header.Get("Mcp-Method")
		mu.Lock()
		seen = append(seen, method+" "+r.Header.Get("Mcp-Protocol-Version"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch method {
		case "server/discover":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"]}}`, id)
		case "hang":
			<-r.Context().Done()
		case "":
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
		}
	})
	if _, err := client.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Call(ctx, "hang", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call: %v, want deadline exceeded", err)
	}
	if err := client.Notify(t.Context(), "notifications/last", nil); err != nil {
		t.Error(err)
	}
	_ = client.Close()
	want := []string{" ", "server/discover 2026-07-28", "hang 2026-07-28", "notifications/last 2026-07-28"}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("requests differ (-want +got):\n%s", diff)
	}
}

func TestEncodeHeader(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "tool": "tool", "a b": "a b", " a": "=?base64?IGE=?=", "é": "=?base64?w6k=?=",
		"a\nb": "=?base64?YQpi?=", "=?base64?x?=": "=?base64?PT9iYXNlNjQ/eD89?=",
	} {
		got := wire.EncodeHeader(in)
		if back, ok := wire.DecodeHeader(got); got != want || back != in || !ok {
			t.Errorf("EncodeHeader(%q) is %q, want %q; it decodes to %q", in, got, want, back)
		}
	}
}
