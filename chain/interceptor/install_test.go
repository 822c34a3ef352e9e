package interceptor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
)

// bearer adds a header to each request.
type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer ann")
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("round trip: %w", err)
	}
	return resp, nil
}

// overHTTP serves a go-sdk server behind its bearer token middleware.
func overHTTP(tb testing.TB, server *mcp.Server, stateless bool) mcp.Transport {
	tb.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	guarded := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Scopes: []string{"all"}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(handler)
	web := httptest.NewServer(guarded)
	tb.Cleanup(web.Close)
	client := web.Client()
	client.Transport = bearer{client.Transport}
	return &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: client}
}

// caller makes a client that can ask interceptors and connects it.
func caller(tb testing.TB, transport mcp.Transport, version string) *mcp.ClientSession {
	tb.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	for _, method := range []string{interceptor.MethodList, interceptor.MethodInvoke, "interceptors/invoke", "interceptor/executeChain"} {
		if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](client, method); err != nil {
			tb.Fatal(err)
		}
	}
	session, err := client.Connect(tb.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = session.Close() })
	return session
}

func ask(tb testing.TB, session *mcp.ClientSession, method, params string) (string, error) {
	tb.Helper()
	r, err := mcp.CallCustomMethod[*rawParams, *rawResult](tb.Context(), session, method, &rawParams{raw: []byte(params)})
	if err != nil {
		return "", err //nolint:wrapcheck // the test looks at it
	}
	return string(r.raw), nil
}

// Every error, with code and data, is the same over every transport, in both protocol generations.
func TestErrorsOverEveryWay(t *testing.T) {
	t.Parallel()
	for _, version := range []string{wire.Version20251125, wire.Version20260728} {
		for _, way := range []string{"installed", "installed HTTP", "lean stdio", "lean HTTP"} {
			t.Run(way+" "+version, func(t *testing.T) {
				t.Parallel()
				server := newZoo(t, nil)
				var transport mcp.Transport
				if way == "installed HTTP" {
					sdk := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
					if err := server.Install(sdk); err != nil {
						t.Fatal(err)
					}
					transport = overHTTP(t, sdk, version == wire.Version20260728)
				} else {
					transport = sdkTransport(t, way, server)
				}
				session := caller(t, transport, version)
				for name, tt := range map[string]struct{ params, data string }{
					"-32602 unknown":    {string(params("nope", "")), `{"interceptor":"nope","name":"nope"}`},
					"-32602 not hooked": {`{"name":"sink","event":"x","phase":"request","payload":{}}`, `{"interceptor":"sink","name":"sink","event":"x","phase":"request","advertisedHooks":[{"events":["*"],"phase":"response"}]}`},
					"-32602 no phase":   {`{"name":"pass","event":"x","payload":{}}`, `{"reason":"phase is neither request nor response"}`},
					"-32602 config":     {string(params("strict", `,"config":{"level":"no"}`)), `{"interceptor":"strict","path":"config.level","reason":"enum: no does not equal any of: [low high]"}`},
					"-32603 error":      {string(params("error", "")), `{"interceptor":"error","phase":"request","reason":"no luck"}`},
					"-32603 panic":      {string(params("panic", "")), `{"interceptor":"panic","phase":"request","reason":"panic"}`},
					"-32000 timeout":    {string(params("hang", `,"timeoutMs":5`)), `{"interceptor":"hang","timeoutMs":5,"phase":"request","reason":"timeout"}`},
				} {
					_, err := ask(t, session, interceptor.MethodInvoke, tt.params)
					e, ok := errors.AsType[*jsonrpc.Error](err)
					code, _, _ := strings.Cut(name, " ")
					if !ok || strconv.FormatInt(e.Code, 10) != code {
						t.Errorf("%s: %v", name, err)
						continue
					}
					if diff := cmp.Diff(tt.data, string(e.Data)); diff != "" {
						t.Errorf("%s: data (-want +got):\n%s", name, diff)
					}
				}
				_, err := ask(t, session, "interceptor/executeChain", `{}`)
				if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != wire.CodeMethodNotFound {
					t.Errorf("executeChain: %v, want -32601", err)
				}
				if got, err := ask(t, session, "interceptors/invoke", string(params("pass", ""))); err != nil || !strings.Contains(got, `"valid":true`) {
					t.Errorf("the plural name: %s, %v", got, err)
				}
				for _, payload := range []string{`{"x":1.0}`, `{"method":"tools/call","params":{"x":1}}`} {
					got, err := ask(t, session, interceptor.MethodInvoke, strings.Replace(string(params("other", "")), `{"x":1.0}`, payload, 1))
					if enveloped := strings.Contains(got, `"payload":{"method":"tools/call","params":{"n"`); err != nil || enveloped != strings.Contains(payload, "method") {
						t.Errorf("%s: %s, %v: not the shape that came", payload, got, err)
					}
				}
			})
		}
	}
}

// One set is installed on two servers that have tools, in one call. The tools work as before, the capability is
// announced beside those of the server, and handlers see session, headers and token.
func TestInstallBesideTools(t *testing.T) {
	t.Parallel()
	who := interceptor.Validator(interceptor.Descriptor{Name: "who", Hooks: append(interceptor.OnRequest("tools/call", "x/y"), interceptor.OnResponse("x/y")...)},
		func(ctx context.Context, _ *call) (verdict, error) {
			r := interceptor.RequestOf(ctx)
			if r.Session == nil || r.Session.InitializeParams() == nil {
				return verdict{}, errors.New("no session")
			}
			said := r.Session.InitializeParams().ClientInfo.Name
			if r.Token != nil {
				said += " " + r.Token.UserID + " " + r.Header.Get("Authorization")
			}
			return interceptor.Deny(said), nil
		})
	server, err := interceptor.New(&interceptor.Options{PageSize: 1}, who,
		interceptor.ValidatorBool(interceptor.Descriptor{Name: "b", Hooks: interceptor.OnRequest("*")}, func(context.Context, *call) (bool, error) { return true, nil }))
	if err != nil {
		t.Fatal(err)
	}
	var servers []*mcp.Server
	for range 2 {
		sdk := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Instructions: "as before"})
		mcp.AddTool(sdk, &mcp.Tool{Name: "greet"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, struct{}, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, struct{}{}, nil
		})
		servers = append(servers, sdk)
	}
	if err := server.Install(servers...); err != nil {
		t.Fatal(err)
	}
	if err := server.Install(nil); err == nil {
		t.Error("a nil server was taken")
	}
	for i, version := range []string{wire.Version20251125, wire.Version20260728} {
		ours, theirs := mcp.NewInMemoryTransports()
		inMemory, err := servers[i].Connect(t.Context(), theirs, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = inMemory.Wait() })
		for said, transport := range map[string]mcp.Transport{"c": ours, "c ann Bearer ann": overHTTP(t, servers[i], i == 1)} {
			session := caller(t, transport, version)
			init := session.InitializeResult()
			extension, err := json.Marshal(init.Capabilities.Extensions[interceptor.ExtensionName])
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(extension), `{"supportedEvents":["tools/call","x/y","*"]}`; got != want || init.Capabilities.Tools == nil || init.Instructions != "as before" {
				t.Errorf("%s: extension %s, want %s; capabilities %+v", version, got, want, init.Capabilities)
			}
			if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet"}); err != nil || res.IsError || len(res.Content) != 1 {
				t.Errorf("%s: tool: %v, %v", version, res, err)
			}
			got, err := ask(t, session, interceptor.MethodInvoke, string(params("who", "")))
			if err != nil || !strings.Contains(got, `"message":"`+said+`"`) {
				t.Errorf("%s: %s, %v, want %s", version, got, err, said)
			}
			first, err := ask(t, session, interceptor.MethodList, `{"event":"tools/call"}`)
			if err != nil || !strings.Contains(first, `"name":"who"`) || !strings.Contains(first, `"nextCursor":"i1"`) {
				t.Errorf("%s: first page %s, %v", version, first, err)
			}
			second, err := ask(t, session, interceptor.MethodList, `{"event":"tools/call","cursor":"i1"}`)
			if err != nil || !strings.Contains(second, `"name":"b"`) || strings.Contains(second, "nextCursor") {
				t.Errorf("%s: second page %s, %v", version, second, err)
			}
		}
	}
}

// What a go-sdk client cancels ends at the handler.
func TestCancelOverInstalled(t *testing.T) {
	t.Parallel()
	ended, begun := make(chan error, 1), make(chan struct{})
	server := serve(t, interceptor.Validator(on("slow"), func(ctx context.Context, _ *call) (verdict, error) {
		close(begun)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return verdict{}, ctx.Err()
	}))
	session := caller(t, sdkTransport(t, "installed", server), wire.Version20251125)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := mcp.CallCustomMethod[*rawParams, *rawResult](ctx, session, interceptor.MethodInvoke, &rawParams{raw: []byte(params("slow", ""))})
	if err == nil {
		t.Error("a cancelled call was answered")
	}
	if cause := <-ended; cause == nil {
		t.Error("the handler's context did not end")
	}
}
