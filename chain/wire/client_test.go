package wire_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// pipes joins two line connections by operating system pipes.
func pipes(tb testing.TB) (a, b *wire.LineConn) {
	tb.Helper()
	r1, w1, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	return wire.NewLineConn(r1, w2, nil), wire.NewLineConn(r2, w1, nil)
}

// runClient runs a client on conn until the test ends.
func runClient(tb testing.TB, conn wire.Conn, opts *wire.ClientOptions) *wire.Client {
	tb.Helper()
	if opts == nil {
		opts = &wire.ClientOptions{}
	}
	opts.Logger = slog.New(slog.NewTextHandler(tb.Output(), nil))
	client := wire.NewClient(conn, opts)
	done := make(chan struct{})
	go func() { defer close(done); _ = client.Run(context.Background()) }()
	tb.Cleanup(func() { _ = client.Close(); <-done })
	return client
}

// scripted runs a client against a peer that answers by a function.
func scripted(tb testing.TB, opts *wire.ClientOptions, peer func(conn *wire.LineConn, msg wire.Message)) *wire.Client {
	tb.Helper()
	ours, theirs := pipes(tb)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = theirs.Receive(context.Background(), func(raw []byte) {
			msg, err := wire.Parse(raw, wire.Limits{})
			if err != nil {
				tb.Errorf("client sent %s: %v", raw, err)
				return
			}
			peer(theirs, msg)
		}, nil)
	}()
	tb.Cleanup(func() { <-done; _ = theirs.Close() })
	return runClient(tb, ours, opts)
}

func send(conn *wire.LineConn, raw string) { _ = conn.Send(context.Background(), []byte(raw), nil) }

func TestClientManyCalls(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var held []wire.Message
	const calls = 100
	client := scripted(t, nil, func(conn *wire.LineConn, msg wire.Message) { // answers in reverse order
		mu.Lock()
		defer mu.Unlock()
		if held = append(held, msg); len(held) == calls {
			for _, m := range slices.Backward(held) {
				_ = conn.Send(context.Background(), wire.NewResponse(m.ID, m.Params), nil)
			}
		}
	})
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			want := fmt.Sprintf(`{"n":%d}`, i)
			if got, err := client.Call(t.Context(), "echo", jsonx.Value(want)); err != nil || string(got) != want {
				t.Errorf("Call: %s, %v; want %s", got, err, want)
			}
		})
	}
	wg.Wait()
}

func TestClientOddAnswers(t *testing.T) {
	t.Parallel()
	cancelled := make(chan string, 1)
	notified := make(chan string, 1)
	answers := make(chan string, 2)
	opts := &wire.ClientOptions{Notification: func(method string, params jsonx.Value) { notified <- method + string(params) }}
	client := scripted(t, opts, func(conn *wire.LineConn, msg wire.Message) {
		id := string(msg.ID)
		switch msg.Method {
		case "error":
			send(conn, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32001,"message":"no","data":{"n":12345678901234567890}}}`)
		case "float id":
			send(conn, `{"jsonrpc":"2.0","id":`+id+`.0,"result":{}}`)
		case "duplicate":
			send(conn, `{"jsonrpc":"2.0","id":`+id+`,"result":{"valid":false,"valid":true}}`)
		case "twice":
			send(conn, `{"jsonrpc":"2.0","id":`+id+`,"result":1}`)
			send(conn, `{"jsonrpc":"2.0","id":`+id+`,"result":2}`)
		case "string id":
			send(conn, `{"jsonrpc":"2.0","id":"`+id+`","result":"wrong"}`)
			send(conn, `garbage`)
			send(conn, `[{"jsonrpc":"2.0","method":"note","params":{"a":1}},[],{"jsonrpc":"2.0","id":`+id+`,"result":"right"}]`)
		case "asks":
			send(conn, `{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			send(conn, `{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage"}`)
			send(conn, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
		case "notifications/cancelled":
			cancelled <- string(msg.Params)
		case "":
			answers <- string(msg.Raw)
		}
	})
	_, err := client.Call(t.Context(), "error", nil)
	want := &wire.RPCError{Code: -32001, Message: "no", Data: jsonx.Value(`{"n":12345678901234567890}`)}
	if got, _ := errors.AsType[*wire.RPCError](err); cmp.Diff(want, got) != "" {
		t.Errorf("error answer differs: %s", cmp.Diff(want, got))
	}
	if _, err := client.Call(t.Context(), "float id", nil); err != nil {
		t.Errorf("an id that went through a float was not known: %v", err)
	}
	_, err = client.Call(t.Context(), "duplicate", nil)
	if _, ok := errors.AsType[*wire.ParseError](err); !ok {
		t.Errorf("an answer with a duplicate member gave %v, want a ParseError", err)
	}
	if v, err := client.Call(t.Context(), "twice", nil); err != nil || string(v) != "1" {
		t.Errorf("first answer: %s, %v", v, err)
	}
	if v, err := client.Call(t.Context(), "string id", nil); err != nil || string(v) != `"right"` {
		t.Errorf("batch answer: %s, %v", v, err)
	}
	if got := <-notified; got != `note{"a":1}` {
		t.Errorf("notification %s", got)
	}
	if _, err := client.Call(t.Context(), "asks", nil); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`{"jsonrpc":"2.0","id":"p","result":{}}`, `"id":"s","error":{"code":-32601`} {
		if got := <-answers; !strings.Contains(got, want) {
			t.Errorf("answer to the server is %s, want %s", got, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Call(ctx, "hang", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call: %v, want deadline exceeded", err)
	}
	if got := <-cancelled; !strings.Contains(got, `"reason":"timeout"`) {
		t.Errorf("cancelled with %s", got)
	}
	got := client.Stats()
	if got.Unknown != 2 || got.Malformed != 3 || got.Dropped != 0 || got.Calls != 7 {
		t.Errorf("stats are %+v", got)
	}
}

func TestClientConnectionLoss(t *testing.T) {
	t.Parallel()
	var n int
	client := scripted(t, &wire.ClientOptions{MaxInFlight: 3}, func(conn *wire.LineConn, _ wire.Message) {
		if n++; n == 3 {
			_ = conn.CloseWrite()
		}
	})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := client.Call(t.Context(), "x", nil); !errors.Is(err, wire.ErrDisconnected) {
				t.Errorf("Call: %v, want ErrDisconnected", err)
			}
		})
	}
	wg.Wait()
	<-client.Done()
	if _, err := client.Call(t.Context(), "x", nil); !errors.Is(err, wire.ErrDisconnected) {
		t.Errorf("Call afterwards: %v, want ErrDisconnected", err)
	}
}

func TestClientBoundsCalls(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	client := scripted(t, &wire.ClientOptions{MaxInFlight: 1}, func(_ *wire.LineConn, msg wire.Message) {
		if msg.Method == "x" {
			close(asked)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := client.Call(ctx, "x", nil); done <- err }()
	<-asked
	if _, err := client.Call(ctx, "y", nil); !errors.Is(err, wire.ErrTooManyCalls) {
		t.Errorf("Call: %v, want ErrTooManyCalls", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Call: %v, want canceled", err)
	}
}

// A real SDK server, over pipes, in both generations.
func TestClientWithSDKServer(t *testing.T) {
	t.Parallel()
	for _, version := range []string{wire.Version20251125, wire.Version20250618, wire.Version20260728} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r1, w1, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r2, w2, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			session, err := newSDKServer().Connect(t.Context(), &mcp.IOTransport{Reader: r1, Writer: w2}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Wait() })
			client := runClient(t, wire.NewLineConn(r2, w1, nil), &wire.ClientOptions{Probe: []string{version}})
			exerciseSDK(t, client, version)
		})
	}
}

func exerciseSDK(t *testing.T, client *wire.Client, version string) {
	t.Helper()
	server, err := client.Initialize(t.Context())
	if err != nil {
		t.Fatalf("Initialize: %v", err)
	}
	if server.ProtocolVersion != version || server.Name != "sdk" {
		t.Errorf("server is %s, %s; want %s", server.Name, server.ProtocolVersion, version)
	}
	got, err := client.Call(t.Context(), "echo", jsonx.Value(`{"n":12345678901234567890,"_meta":{"x":1.0},"b":"<b>"}`))
	if err != nil {
		t.Fatalf("Call: %v", err)
	}
	if n, _ := wire.Member(got, "n"); string(n) != "12345678901234567890" {
		t.Errorf("the echo is %s", got)
	}
	if meta := wire.MetaOf(got); wire.Modern(version) != (meta.ProtocolVersion == version) {
		t.Errorf("_meta names the version %q", meta.ProtocolVersion)
	}
	if meta, _ := wire.Member(got, "_meta"); !strings.Contains(string(meta), `"x":1.0`) {
		t.Errorf("_meta of the caller is lost: %s", meta)
	}
	got, err = client.Call(t.Context(), "tools/call", jsonx.Value(`{"name":"greet","arguments":{"name":"é"}}`))
	if err != nil || !strings.Contains(string(got), "hello é") {
		t.Errorf("tools/call: %s, %v", got, err)
	}
	_, err = client.Call(t.Context(), "nope", nil)
	rpc, isRPC := errors.AsType[*wire.RPCError](err)
	status, isStatus := errors.AsType[*wire.StatusError](err) // how the SDK refuses it over HTTP before 2026-07-28
	if (!isRPC || rpc.Code != wire.CodeMethodNotFound) && (!isStatus || status.Status != 400) {
		t.Errorf("unknown method: %v, want -32601", err)
	}
}

func TestInitializeProbes(t *testing.T) {
	t.Parallel()
	modernOnly := func(conn *wire.LineConn, msg wire.Message) {
		if msg.Method == wire.MethodDiscover {
			_ = conn.Send(context.Background(), wire.NewResponse(msg.ID, jsonx.Value(
				`{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"e":{"on":true}}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}`)), nil)
			return
		}
		_ = conn.Send(context.Background(), wire.NewErrorAnswer(msg.ID, &wire.RPCError{Code: -32601, Message: "no"}), nil)
	}
	client := scripted(t, nil, modernOnly)
	server, err := client.Initialize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := server.Extension("e"); server.Name != "m" || !ok || string(e) != `{"on":true}` {
		t.Errorf("server is %+v", server)
	}
	neither := scripted(t, nil, func(conn *wire.LineConn, msg wire.Message) {
		_ = conn.Send(context.Background(), wire.NewResponse(msg.ID, jsonx.Value(`{"protocolVersion":"1999-01-01"}`)), nil)
	})
	if _, err := neither.Initialize(t.Context()); !errors.Is(err, wire.ErrHandshake) {
		t.Errorf("Initialize: %v, want ErrHandshake", err)
	}
}

// A server that was modern and is legacy after a restart gets nothing of the earlier handshake, and an
// initialize that took too long is not cancelled.
func TestInitializeAgain(t *testing.T) {
	t.Parallel()
	got := make(chan string, 4)
	hangs := make(chan string, 1)
	legacy, answers := false, true
	client := scripted(t, &wire.ClientOptions{Probe: []string{wire.Version20260728, wire.Version20251125}}, func(conn *wire.LineConn, msg wire.Message) {
		switch {
		case msg.Kind == wire.KindNotification:
			got <- msg.Method + string(msg.Params)
		case msg.Method == "hang":
			hangs <- string(msg.ID)
		case msg.Method == wire.MethodDiscover && !legacy:
			legacy = true
			_ = conn.Send(context.Background(), wire.NewResponse(msg.ID, jsonx.Value(`{"supportedVersions":["2026-07-28"]}`)), nil)
		case msg.Method == wire.MethodInitialize && answers:
			answers = false
			_ = conn.Send(context.Background(), wire.NewResponse(msg.ID, jsonx.Value(`{"protocolVersion":"2025-11-25"}`)), nil)
		case msg.Method == wire.MethodDiscover:
			_ = conn.Send(context.Background(), wire.NewErrorAnswer(msg.ID, &wire.RPCError{Code: -32601}), nil)
		}
	})
	for _, want := range []string{wire.Version20260728, wire.Version20251125} {
		if server, err := client.Initialize(t.Context()); err != nil || server.ProtocolVersion != want {
			t.Fatalf("Initialize: %+v, %v; want %s", server, err, want)
		}
	}
	if s := <-got; s != "notifications/initialized" {
		t.Errorf("notification is %s", s)
	}
	for _, method := range []string{"initialize", "hang"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := client.Call(ctx, method, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want deadline exceeded", method, err)
		}
		cancel()
	}
	id := <-hangs
	if s := <-got; !strings.HasPrefix(s, `notifications/cancelled{"requestId":`+id+`,`) {
		t.Errorf("notification is %s, want the cancellation of %s", s, id)
	}
}

func TestClientWithChildren(t *testing.T) {
	t.Parallel()
	child := startChild(t, "sdk", nil)
	client := runClient(t, child, nil)
	t.Cleanup(func() { _ = child.Stop(context.Background()) })
	exerciseSDK(t, client, wire.Version20251125)
}
