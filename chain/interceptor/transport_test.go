package interceptor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
)

// stdio serves the zoo over pipes and returns our end.
func stdio(tb testing.TB, opts *interceptor.Options) *wire.LineConn {
	tb.Helper()
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	server := newZoo(tb, opts)
	done := make(chan error, 1)
	go func() { done <- server.ServeStdio(context.Background(), theirIn, theirOut) }()
	conn := wire.NewLineConn(ourIn, ourOut, nil)
	tb.Cleanup(func() {
		_ = conn.Close()
		if err := <-done; err != nil {
			tb.Errorf("ServeStdio: %v", err)
		}
	})
	return conn
}

func write(tb testing.TB, conn *wire.LineConn, lines ...string) {
	tb.Helper()
	for _, line := range lines {
		if err := conn.Send(tb.Context(), []byte(line), nil); err != nil {
			tb.Fatal(err)
		}
	}
}

func read(tb testing.TB, conn *wire.LineConn) string {
	tb.Helper()
	line, err := conn.ReadMessage()
	if err != nil {
		tb.Fatal(err)
	}
	return string(line)
}

func TestStdioBadInput(t *testing.T) {
	t.Parallel()
	conn := stdio(t, &interceptor.Options{MaxMessage: 10_000})
	for _, tt := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":"a","method":"ping"`, `{"jsonrpc":"2.0","id":"a","error":{"code":-32700,`},
		{`garbage`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`{"jsonrpc":"2.0","id":1.50,"method":"x","method":"ping"}`, `{"jsonrpc":"2.0","id":1.50,"error":{"code":-32700,`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{strings.Repeat("x", 20_000), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: message too large: line exceeds 10000 bytes`},
		{`{"jsonrpc":"2.0","id":12345678901234567890,"method":"interceptor/executeChain"}`, `{"jsonrpc":"2.0","id":12345678901234567890,"error":{"code":-32601,`},
		{`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,`},
		{`{"jsonrpc":"2.0","id":3,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28",`},
		{`{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`, `{"jsonrpc":"2.0","id":4,"result":{"protocolVersion":"2025-03-26",`},
		{`{"jsonrpc":"2.0","id":5,"method":"ping"}`, `{"jsonrpc":"2.0","id":5,"result":{}}`},
		{`{"jsonrpc":"2.0","id":6,"method":"interceptors/invoke","params":` + string(params("pass", "")) + `}`, `{"jsonrpc":"2.0","id":6,"result":{"type":"validation"`},
	} {
		write(t, conn, `{"jsonrpc":"2.0","method":"notifications/odd"}`, `{"jsonrpc":"2.0","id":99,"result":{}}`, tt.line)
		if got := read(t, conn); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.80s\n gives %s\n want  %s", tt.line, got, tt.want)
		}
	}
}

func TestStdioCancelAndReusedID(t *testing.T) {
	t.Parallel()
	conn := stdio(t, nil)
	hang := `{"jsonrpc":"2.0","id":1,"method":"interceptor/invoke","params":` + string(params("hang", "")) + `}`
	write(t, conn, hang, strings.Replace(hang, `"id":1`, `"id":1.0`, 1))
	if got := read(t, conn); !strings.Contains(got, `"id":1.0,"error":{"code":-32600`) {
		t.Errorf("a reused id gives %s", got)
	}
	write(t, conn, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	// The cancelled call is not answered, and its id is free again.
	for range 1000 {
		write(t, conn, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		got := read(t, conn)
		if got == `{"jsonrpc":"2.0","id":1,"result":{}}` {
			return
		}
		if !strings.Contains(got, "the id is in use") {
			t.Fatalf("got %s", got)
		}
	}
	t.Error("the cancelled call never ended")
}

// Calls under way when stdin ends are still answered.
func TestStdioAnswersAfterEOF(t *testing.T) {
	t.Parallel()
	server := newZoo(t, nil)
	var out bytes.Buffer
	in := strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"interceptors/list"}`+"\n", 1)
	if err := server.ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":1,"result":{"interceptors":[`) {
		t.Errorf("wrote %s", out.String())
	}
}

func TestStdioEndsWithContext(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newZoo(t, nil).ServeStdio(ctx, r, w); err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	ts := httptest.NewServer(newZoo(t, &interceptor.Options{MaxMessage: 10_000}).HTTPHandler())
	t.Cleanup(ts.Close)
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	list := `{"jsonrpc":"2.0","id":1,"method":"interceptors/list","params":{` + modern + `}}`
	tests := []struct {
		name, method, body string
		header             map[string]string
		status             int
		want               string
	}{
		{name: "ping", body: ping, status: 200, want: `"result":{}`},
		{name: "notification", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 202},
		{name: "GET", method: "GET", status: 405},
		{name: "DELETE", method: "DELETE", status: 405},
		{name: "text", body: ping, header: map[string]string{"Content-Type": "text/plain"}, status: 415},
		{name: "garbage", body: `{`, status: 400, want: `"id":null,"error":{"code":-32700`},
		{name: "batch", body: `[` + ping + `]`, status: 400, want: `"code":-32600`},
		{name: "too large", body: strings.Repeat(" ", 20_000) + ping, status: 413},
		{name: "unknown method", body: `{"jsonrpc":"2.0","id":"\u0041","method":"x"}`, status: 200, want: `"id":"\u0041","error":{"code":-32601`},
		{name: "unknown version", body: ping, header: map[string]string{"Mcp-Protocol-Version": "1999-01-01"}, status: 400, want: `"code":-32022`},
		{name: "modern", body: list, header: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "interceptors/list"}, status: 200, want: `"resultType":"complete"`},
		{name: "no method header", body: list, header: map[string]string{"Mcp-Protocol-Version": "2026-07-28"}, status: 400, want: `"code":-32020`},
		{name: "no version header", body: list, status: 400, want: `"code":-32020`},
		{name: "no _meta", body: ping, header: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"}, status: 400, want: `"code":-32602`},
		{
			name: "modern unknown method", body: strings.ReplaceAll(list, "interceptors/list", "x"), status: 404, want: `"code":-32601`,
			header: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "x"},
		},
		{name: "other origin", body: ping, header: map[string]string{"Origin": "https://example.org"}, status: 403},
		{name: "other host", body: ping, header: map[string]string{"Host": "example.org"}, status: 403},
		{name: "localhost", body: ping, header: map[string]string{"Host": "localhost:80"}, status: 200, want: `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			method := tt.method
			if method == "" {
				method = "POST"
			}
			req, err := http.NewRequestWithContext(t.Context(), method, ts.URL, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json; charset=utf-8")
			for name, value := range tt.header {
				req.Header.Set(name, value)
			}
			if host := tt.header["Host"]; host != "" {
				req.Host = host
			}
			resp, err := ts.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.want) {
				t.Errorf("status %d, want %d; body %s, want %s", resp.StatusCode, tt.status, body, tt.want)
			}
		})
	}
}

// rawParams and rawResult carry JSON through the SDK's client.
type rawParams struct {
	mcp.ParamsBase
	raw json.RawMessage
}

func (p *rawParams) UnmarshalJSON(b []byte) error { p.raw = bytes.Clone(b); return nil }
func (p *rawParams) MarshalJSON() ([]byte, error) {
	if len(p.Meta) == 0 {
		return p.raw, nil
	}
	meta, err := json.Marshal(p.Meta)
	return wire.WithMember(p.raw, "_meta", meta), err
}

type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

func (r *rawResult) UnmarshalJSON(b []byte) error { r.raw = bytes.Clone(b); return nil }
func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }

// A real SDK client asks our interceptors, installed on a real SDK server and served lean. In process,
// and over the SDK's in-memory transport, the results are the same bytes.
func TestWithSDKClient(t *testing.T) {
	t.Parallel()
	for _, version := range []string{wire.Version20251125, wire.Version20260728} {
		for _, way := range []string{"installed", "lean stdio", "lean HTTP"} {
			t.Run(way+" "+version, func(t *testing.T) {
				t.Parallel()
				server := newZoo(t, nil)
				client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
				for _, method := range []string{interceptor.MethodList, interceptor.MethodInvoke} {
					if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](client, method); err != nil {
						t.Fatal(err)
					}
				}
				session, err := client.Connect(t.Context(), sdkTransport(t, way, server), &mcp.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = session.Close() })
				checkSDKSession(t, server, session, version)
			})
		}
	}
}

func sdkTransport(t *testing.T, way string, server *interceptor.Server) mcp.Transport {
	t.Helper()
	switch way {
	case "installed":
		sdk := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		if err := server.Install(sdk); err != nil {
			t.Fatal(err)
		}
		ours, theirs := mcp.NewInMemoryTransports()
		session, err := sdk.Connect(t.Context(), theirs, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Wait() })
		return ours
	case "lean HTTP":
		ts := httptest.NewServer(server.HTTPHandler())
		t.Cleanup(ts.Close)
		return &mcp.StreamableClientTransport{Endpoint: ts.URL, HTTPClient: ts.Client()}
	}
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ServeStdio(context.Background(), theirIn, theirOut) }()
	t.Cleanup(func() { <-done })
	return &mcp.IOTransport{Reader: ourIn, Writer: ourOut}
}

func checkSDKSession(t *testing.T, server *interceptor.Server, session *mcp.ClientSession, version string) {
	t.Helper()
	init := session.InitializeResult()
	if init.ProtocolVersion != version || init.Capabilities.Extensions[interceptor.ExtensionName] == nil {
		t.Errorf("version %s, extensions %v", init.ProtocolVersion, init.Capabilities.Extensions)
	}
	ask := func(method, params string) (string, error) {
		r, err := mcp.CallCustomMethod[*rawParams, *rawResult](t.Context(), session, method, &rawParams{raw: []byte(params)})
		if err != nil {
			return "", err
		}
		return string(r.raw), nil
	}
	for _, name := range []string{"other", "warn", "pass", "same"} {
		want, err := server.Invoke(t.Context(), params(name, ""))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ask(interceptor.MethodInvoke, string(params(name, "")))
		if err != nil {
			t.Fatal(err)
		}
		if wire.Modern(version) { // adds resultType, and on the SDK _meta, at the end
			got, _, _ = strings.Cut(got, `,"resultType"`)
			got += "}"
		}
		if diff := cmp.Diff(timeless(string(want)), timeless(got)); diff != "" {
			t.Errorf("%s: result differs from the one in process (-want +got):\n%s", name, diff)
		}
	}
	_, err := ask(interceptor.MethodInvoke, string(params("error", "")))
	var e *jsonrpc.Error
	if want := `{"interceptor":"error","phase":"request","reason":"no luck"}`; !errors.As(err, &e) || e.Code != wire.CodeInternal || string(e.Data) != want {
		t.Errorf("error is %v, want -32603 with %s", err, want)
	}
	if _, err := ask(interceptor.MethodInvoke, strings.Replace(string(params("pass", "")), `"x":1.0`, `"x":1,"x":2`, 1)); err == nil {
		t.Error("a payload with a duplicate member was taken")
	}
	list, err := ask(interceptor.MethodList, `{"event":"prompts/get"}`)
	if err != nil || !strings.Contains(list, `"name":"sink"`) || strings.Contains(list, `"name":"pass"`) {
		t.Errorf("list: %s, %v", list, err)
	}
}

// The lean client tells the lean server what it cancels, and the server frees its slot.
func TestLeanCancel(t *testing.T) {
	t.Parallel()
	client := wire.NewClient(stdio(t, &interceptor.Options{MaxConcurrent: 1}), nil)
	done := make(chan struct{})
	go func() { defer close(done); _ = client.Run(context.Background()) }()
	t.Cleanup(func() { _ = client.Close(); <-done })
	if _, err := client.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := client.Call(ctx, interceptor.MethodInvoke, params("hang", "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call: %v, want deadline exceeded", err)
	}
	for range 1000 {
		if _, err := client.Call(t.Context(), interceptor.MethodInvoke, params("pass", "")); err == nil {
			return
		}
	}
	t.Error("the slot was never freed")
}
