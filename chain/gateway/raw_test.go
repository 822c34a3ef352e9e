package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// rawPeer is an HTTP backend that answers with the bytes it is told to, and keeps what it got.
type rawPeer struct {
	mu   sync.Mutex
	got  [][]byte
	head []http.Header
	url  string
}

func newRawPeer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body []byte)) *rawPeer {
	t.Helper()
	p := &rawPeer{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.got, p.head = append(p.got, body), append(p.head, r.Header.Clone())
		p.mu.Unlock()
		answer(w, r, body)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *rawPeer) requests() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]byte(nil), p.got...)
}

func answerJSON(body string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func httpBackend(url string, p *fakePlan) []Backend {
	return []Backend{{Name: "b", URL: url, Plan: planOf(p)}}
}

// odd are requests and answers that typed sessions would change.
func odd() (request, answer string) {
	return `{ "method":"tools/call", "x-extra" : 1e400,"id":"\u0061\ud83d",` + "\t" +
			`"params":{"name":"t","arguments":{"n":9007199254740993,"s":"\ud83d","f":1.0,"z":-0},"futureField":[1,2]},"jsonrpc":"2.0"}`,
		`{"result":{"content":[{"type":"hologram","data":"\ud83d","n":9223372036854775807}],"structuredContent":{"id":9007199254740993},"future":{}},"id":"a\ud83d", "jsonrpc":"2.0", "more": [ 1 ]}`
}

// TestBytePassage: what nobody changed arrives byte for byte, both ways, as JSON and as events.
func TestBytePassage(t *testing.T) {
	t.Parallel()
	for _, planned := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("plan %v stream %v", planned, stream), func(t *testing.T) {
				t.Parallel()
				request, answer := odd()
				var p *fakePlan
				if planned {
					p = &fakePlan{run: func(context.Context, chain.Input) chain.Result { return chain.Result{} }}
				}
				peer := newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
					if !stream {
						answerJSON(answer)(w, nil, nil)
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = fmt.Fprintf(w, "id: 7\nevent: message\ndata: %s\n\n", answer)
				})
				g := serve(t, Options{Backends: httpBackend(peer.url, p)})
				status, _, body := postRaw(t, g.url, []byte(request))
				if stream {
					answer = "id: 7\nevent: message\ndata: " + answer + "\n\n"
				}
				if diff := cmp.Diff(answer, string(body)); diff != "" || status != 200 {
					t.Errorf("status %d, answer (-want +got):\n%s", status, diff)
				}
				if diff := cmp.Diff(request, string(peer.requests()[0])); diff != "" {
					t.Errorf("request (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestBatch: each entry of an old batch is intercepted; from 2025-06-18 on there are none.
func TestBatch(t *testing.T) {
	t.Parallel()
	p := &fakePlan{
		matches: func(event string, phase schemas.Phase) bool {
			return event == methodToolsCall && phase == schemas.PhaseRequest
		},
		run: func(_ context.Context, in chain.Input) chain.Result {
			if bytes.Contains(in.Payload, []byte("evil")) {
				return deny(in)
			}
			return chain.Result{}
		},
	}
	peer := newRawPeer(t, answerJSON(`[{"jsonrpc":"2.0","id":1,"result":{"ok":1}}]`))
	g := serve(t, Options{Backends: httpBackend(peer.url, p)})
	batch := []byte(`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"good"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"evil"}},{"jsonrpc":"2.0","id":3}]`)
	_, _, body := postRaw(t, g.url, batch, "Mcp-Protocol-Version", "2025-03-26")
	var ids []string
	_, err := wire.Parse(body, wire.Limits{})
	list, ok := errors.AsType[*wire.BatchError](err)
	if !ok {
		t.Fatalf("answer is no batch: %s", body)
	}
	for _, e := range list.Entries {
		msg := mustParse(t, e)
		ids = append(ids, string(msg.ID)+" "+msg.Kind.String())
	}
	if diff := cmp.Diff([]string{"2 error", "3 error", "1 response"}, ids); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if got := string(peer.requests()[0]); strings.Contains(got, "evil") || !strings.HasPrefix(got, "[") {
		t.Errorf("the server got %s", got)
	}
	status, _, body := postRaw(t, g.url, batch, "Mcp-Protocol-Version", version20250618)
	if msg := mustParse(t, body); status != 400 || msg.RPCError().Code != -32600 {
		t.Errorf("new protocol: status %d, %s", status, body)
	}
	if n := len(peer.requests()); n != 1 {
		t.Errorf("the server got %d requests, want 1", n)
	}
}

// TestBadRequests: a JSON-RPC error with the id as far as there is one, an event, and no effect.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)
	for _, c := range []struct {
		name, body string
		code       int
		id         string
	}{
		{"not JSON", `{"jsonrpc":`, -32700, ""},
		{"empty", ``, -32700, ""},
		{"number", `7`, -32600, ""},
		{"no version", `{"id":1,"method":"ping"}`, -32600, "1"},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":7}`, -32600, "1"},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, ""},
		{"params are a string", `{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}`, -32600, "1"},
		{"duplicate name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, -32700, "1"},
		{"duplicate by escape", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}`, -32700, "1"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}", -32700, "1"},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":` + deep + `}}`, -32700, "1"},
		{"both a call and an answer", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, -32600, "1"},
		{"two texts", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, -32700, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			peer := newRawPeer(t, answerJSON(`{}`))
			g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
			status, _, body := postRaw(t, g.url, []byte(c.body))
			msg := mustParse(t, body)
			want := c.id
			if want == "" {
				want = "null"
			}
			if rpc := msg.RPCError(); status != 400 || rpc == nil || rpc.Code != c.code || string(msg.ID) != want {
				t.Errorf("status %d, answer %s, want code %d, id %s", status, body, c.code, want)
			}
			if len(peer.requests()) != 0 {
				t.Error("the server got it")
			}
			if lines := g.ledger.lines(); len(lines) != 2 || lines[1] != "outcome other error malformed" {
				t.Errorf("recorded %v", lines)
			}
			l := serveLines(t, Options{Backends: []Backend{backend(t, "stdio", nil)}})
			if c.body == "" {
				return
			}
			go func() { _, _ = io.WriteString(l.in, c.body+"\n"+pingText+"\n") }()
			ids := map[string]int{want: c.code, "99": 0} // the session lives on
			for range 2 {
				msg := l.read(t)
				code, due := ids[string(msg.ID)]
				if rpc := msg.RPCError(); !due || (code != 0) != (rpc != nil && rpc.Code == code) {
					t.Errorf("over stdio got %s", msg.Raw)
				}
				delete(ids, string(msg.ID))
			}
		})
	}
}

const pingText = `{"jsonrpc":"2.0","id":99,"method":"ping"}`

// TestBadAnswers: the caller gets an error under its id, the exchange ends, the next call works.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	all := &fakePlan{run: func(context.Context, chain.Input) chain.Result { return chain.Result{} }}
	event := func(s string) string { return "data: " + s + "\n\n" }
	for _, c := range []struct {
		name, kind, body string
		status           int
		plan             *fakePlan
		want             string // of the recorded outcome
		code             int    // 0: the answer is passed as it is
	}{
		{"garbage", "application/json", `{{{`, 200, nil, "error malformed", -32603},
		{"another id", "application/json", `{"jsonrpc":"2.0","id":8,"result":{}}`, 200, nil, "error malformed", -32603},
		{"no JSON-RPC", "application/json", `{"ok":true}`, 200, nil, "error malformed", -32603},
		{"text", "text/plain", `hello`, 200, nil, "error malformed", -32603},
		{"nothing", "application/json", ``, 202, nil, "error http_status", 0},
		{"unauthorized", "application/json", `{"error":"invalid_token"}`, 401, nil, "error http_status", 0},
		{"lost session", "text/plain", `session not found`, 404, nil, "error http_status", 0},
		{"error without id", "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`, 400, nil, "error ", 0},
		{"error with data", "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"no","data":{"a":[1]},"more":1}}`, 200, nil, "error ", 0},
		{"duplicates, no plan", "application/json", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, 200, nil, "allowed ", 0},
		{"duplicates, plan", "application/json", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, 200, all, "error malformed", -32603},
		{"invalid UTF-8, plan", "application/json", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}", 200, all, "error malformed", -32603},
		{"event garbage", "text/event-stream", event(`{{{`), 200, nil, "error malformed", -32603},
		{"stream without answer", "text/event-stream", event(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`), 200, nil, "error no_answer", -32603},
		{"answered twice", "text/event-stream", event(`{"jsonrpc":"2.0","id":1,"result":{}}`) + event(`{"jsonrpc":"2.0","id":1,"result":{"second":1}}`), 200, nil, "allowed ", 0},
		{"answer to an unknown id", "text/event-stream", event(`{"jsonrpc":"2.0","id":5,"result":{}}`) + event(`{"jsonrpc":"2.0","id":1,"result":{}}`), 200, nil, "allowed ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			peer := newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			g := serve(t, Options{Backends: httpBackend(peer.url, c.plan)})
			status, head, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`))
			if c.code == 0 {
				want := strings.ReplaceAll(c.body, `{"second":1}`, "") // see below
				if c.name != "answered twice" && c.name != "answer to an unknown id" && (status != c.status || string(body) != want) {
					t.Errorf("status %d, body %s, want it as it is", status, body)
				}
				if n := bytes.Count(body, []byte("result")); c.kind == wire.ContentSSE && n != 1 {
					t.Errorf("got %d results in %s, want 1", n, body)
				}
			} else {
				raw := body
				if strings.HasPrefix(head.Get("Content-Type"), wire.ContentSSE) {
					raw = body[bytes.LastIndex(body, []byte("data: "))+6:]
				}
				msg := mustParse(t, bytes.TrimSpace(raw))
				if rpc := msg.RPCError(); rpc == nil || rpc.Code != c.code || string(msg.ID) != "1" {
					t.Errorf("status %d, body %s, want code %d under id 1", status, body, c.code)
				}
			}
			lines := g.ledger.lines()
			if !slices.Contains(lines, "outcome tools/call "+c.want) {
				t.Errorf("recorded %v, want %s", lines, c.want)
			}
		})
	}
}

// TestLost: a server that cannot be reached, or dies, ends what is open with backend_lost.
func TestLost(t *testing.T) {
	t.Parallel()
	call := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`)
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.NotFoundHandler())
		s.Close()
		g := serve(t, Options{Backends: httpBackend(s.URL, nil)})
		status, _, body := postRaw(t, g.url, call)
		if msg := mustParse(t, body); status != 502 || msg.RPCError() == nil || string(msg.ID) != "1" {
			t.Errorf("status %d, %s", status, body)
		}
		g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeError)
	})
	t.Run("half an answer", func(t *testing.T) {
		t.Parallel()
		peer := newRawPeer(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Length", "100")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc"`)
		})
		g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
		status, _, body := postRaw(t, g.url, call)
		if msg := mustParse(t, body); status != 502 || string(msg.ID) != "1" {
			t.Errorf("status %d, %s", status, body)
		}
	})
	for _, kind := range []string{"crash", "no such program"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := backend(t, "stdio", nil)
			if b.Env[childEnv] = "crash"; kind != "crash" {
				b.Command = []string{"/no/such/program"}
			}
			g := serve(t, Options{Backends: []Backend{b}})
			status, _, body := postRaw(t, g.url, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
			if msg := mustParse(t, body); msg.RPCError() == nil || string(msg.ID) != "1" {
				t.Errorf("status %d, %s", status, body)
			}
			if rec := g.ledger.waitOutcome(t, methodInitialize, schemas.OutcomeError); rec.Event.Decision.Cause != causeBackendLost {
				t.Errorf("cause %q", rec.Event.Decision.Cause)
			}
		})
	}
}

// TestLarge: 12 MB pass both ways, to every kind of backend.
func TestLarge(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 12<<20)
	request := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"s":"` + big + `"}}}`
	answer := `{"jsonrpc":"2.0","id":1,"result":{"s":"` + big + `"}}`
	peer := newRawPeer(t, answerJSON(answer))
	g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
	_, _, body := postRaw(t, g.url, []byte(request))
	if string(body) != answer || string(peer.requests()[0]) != request {
		t.Errorf("answer of %d bytes, request of %d, want %d and %d", len(body), len(peer.requests()[0]), len(answer), len(request))
	}
	small := serve(t, Options{Backends: httpBackend(peer.url, nil), MaxMessage: 1 << 20})
	if status, _, body := postRaw(t, small.url, []byte(request)); status != 413 {
		t.Errorf("over the limit: status %d, %s", status, body)
	}
}

// TestAuditFull: status 503 with Retry-After and the cause, and nothing at the server.
func TestAuditFull(t *testing.T) {
	t.Parallel()
	peer := newRawPeer(t, answerJSON(`{"jsonrpc":"2.0","id":99,"result":{}}`))
	g := serve(t, Options{Backends: httpBackend(peer.url, nil), AuditFull: func(error) bool { return true }})
	g.ledger.fail = func(*schemas.Record) error { return io.ErrShortWrite }
	status, head, body := postRaw(t, g.url, []byte(pingText))
	msg := mustParse(t, body)
	if status != 503 || head.Get("Retry-After") == "" || string(msg.RPCError().Data) != `{"cause":"audit_full"}` || string(msg.ID) != "99" {
		t.Errorf("status %d, %v, %s", status, head, body)
	}
	if len(peer.requests()) != 0 {
		t.Error("the server got it")
	}
}

func (l *lines) read(t *testing.T) wire.Message {
	t.Helper()
	type result struct {
		raw []byte
		err error
	}
	got := make(chan result, 1)
	go func() {
		raw, err := l.lineReader().ReadMessage()
		got <- result{raw, err}
	}()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	select {
	case r := <-got:
		if r.err != nil {
			t.Fatal(r.err)
		}
		return mustParse(t, r.raw)
	case <-limit.C:
		t.Fatal("no message within 10 s")
		return wire.Message{}
	}
}
