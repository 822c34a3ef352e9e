package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/client"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a server that tells what reached it.
type backend struct {
	mu   sync.Mutex
	seen []string
}

func (b *backend) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, text)
}

func (b *backend) tell() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.seen, " ")
}

func (b *backend) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(_ context.Context, r *mcp.SubscribeRequest) error { b.note("sub:" + r.Params.URI); return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { b.note("unsub"); return nil },
	})
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			b.note(fmt.Sprintf("%s meta=%v", r.Params.Arguments, r.Params.Meta["k"]))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "got " + string(r.Params.Arguments)}}, Meta: mcp.Meta{"r": "kept"}}, nil
		})
	s.AddTool(&mcp.Tool{Name: "wait", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			b.note(string(r.Params.Arguments))
			<-ctx.Done()
			return nil, ctx.Err()
		})
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "plain"}}}}, nil
	})
	s.AddResource(&mcp.Resource{URI: "file:///a", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///a", Text: "plain"}}}, nil
	})
	return s
}

// connect gives a session with the backend over a transport.
func connect(tb testing.TB, b *backend, way string) *mcp.ClientSession {
	tb.Helper()
	var transport mcp.Transport
	serve := func(t mcp.Transport) {
		session, err := b.server().Connect(tb.Context(), t, nil)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = session.Wait() })
	}
	switch way {
	case "http":
		web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server() }, &mcp.StreamableHTTPOptions{Stateless: true}))
		tb.Cleanup(web.Close)
		transport = &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client()}
	case "stdio":
		theirIn, ourOut, err := os.Pipe()
		if err != nil {
			tb.Fatal(err)
		}
		ourIn, theirOut, err := os.Pipe()
		if err != nil {
			tb.Fatal(err)
		}
		serve(&mcp.IOTransport{Reader: theirIn, Writer: theirOut})
		transport = &mcp.IOTransport{Reader: ourIn, Writer: ourOut}
	default:
		ours, theirs := mcp.NewInMemoryTransports()
		serve(theirs)
		transport = ours
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(tb.Context(), transport, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = session.Close() })
	return session
}

// rules deny what is secret, and make what is plain fancy.
func rules(tb testing.TB) *chain.LocalChain {
	tb.Helper()
	all := interceptor.Both("*")
	local, err := chain.NewLocalChain(nil,
		interceptor.Validator(interceptor.Descriptor{Name: "guard", Hooks: all}, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			if strings.Contains(string(call.Payload), "secret") {
				return interceptor.Deny("a secret"), nil
			}
			return interceptor.Pass(), nil
		}),
		interceptor.Mutator(interceptor.Descriptor{Name: "fancy", Hooks: all}, func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
			if !strings.Contains(string(call.Payload), "plain") {
				return interceptor.Unmodified(), nil
			}
			payload := jsonx.Value(strings.ReplaceAll(string(call.Payload), "plain", "fancy"))
			if call.Event == "tools/call" && call.Phase == schemas.PhaseRequest {
				payload = jsonx.Value(`{"name":"echo","arguments":{"x":"fancy"}}`) // no _meta, and what else there was is gone
			}
			return interceptor.Mutation{Modified: true, Payload: payload}, nil
		}),
		interceptor.Sink(interceptor.Descriptor{Name: "sink", Hooks: interceptor.OnRequest("tools/call")},
			func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				return interceptor.Receipt{Recorded: true}, nil
			}),
	)
	if err != nil {
		tb.Fatal(err)
	}
	return local
}

func TestInterceptedSession(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"memory", "stdio", "http"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			local, b := rules(t), &backend{}
			session := connect(t, b, way)
			c, err := client.New(session, client.Options{Plan: local.Plan, Background: local.Background()})
			if err != nil {
				t.Fatal(err)
			}
			if c.Session() != session {
				t.Error("the wrapped session is another")
			}
			call := func(x string) (*mcp.CallToolResult, error) {
				return c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"x": x, "y": 1}, Meta: mcp.Meta{"k": "v"}})
			}
			_, err = call("secret")
			denied, ok := errors.AsType[*chain.DeniedError](err)
			if !ok || denied.Interceptor != "guard" || denied.Status != schemas.StatusValidationFailed || denied.Severity != schemas.SeverityError ||
				len(denied.Messages) != 1 || denied.Messages[0].Message != "a secret" || denied.Code != -32602 || b.tell() != "" {
				t.Errorf("a denied call returns %#v, and the server saw %q", err, b.tell())
			}
			result, err := call("plain")
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Content[0].(*mcp.TextContent).Text; got != `got {"x":"fancy"}` || b.tell() != `{"x":"fancy"} meta=v` || result.Meta["r"] != "kept" {
				t.Errorf("a changed call returns %q with %v, the server saw %q", got, result.Meta, b.tell())
			}
			prompt, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p"})
			if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "fancy" {
				t.Errorf("prompt: %v, %v", prompt, err)
			}
			read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///a"})
			if err != nil || read.Contents[0].Text != "fancy" {
				t.Errorf("resource: %v, %v", read, err)
			}
			if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///secret"}); !errors.As(err, &denied) {
				t.Errorf("a denied read: %v", err)
			}
			tools, err := c.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 2 {
				t.Errorf("tools: %v, %v", tools, err)
			}
			if _, err := c.ListPrompts(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if _, err := c.ListResources(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if _, err := c.ListResourceTemplates(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "file:///secret"}); !errors.As(err, &denied) {
				t.Errorf("a denied subscription: %v", err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := local.Close(ctx); err != nil {
				t.Error(err)
			}
			if got := local.Background().Stats().Finished; got != 2 {
				t.Errorf("the sink ran %d times, want for each call, the denied one too", got)
			}
		})
	}
}
