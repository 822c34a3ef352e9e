package interop_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// sampleServer serves one interceptor of each type.
func sampleServer() (*interceptor.Server, error) {
	return interceptor.New(
		&interceptor.Options{Logger: slog.New(slog.DiscardHandler)},
		interceptor.Validator(interceptor.Descriptor{Name: "acme/dlp", Version: "1", Hooks: interceptor.OnRequest("tools/call")},
			func(_ context.Context, c *interceptor.Call) (interceptor.Verdict, error) {
				if strings.Contains(string(c.Payload), "evil") {
					return interceptor.Deny("no evil"), nil
				}
				return interceptor.Pass(), nil
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "acme/redactor", Hooks: interceptor.Both("tools/call")},
			func(_ context.Context, c *interceptor.Call) (interceptor.Mutation, error) {
				changed := strings.ReplaceAll(string(c.Payload), "secret", "[gone]")
				return interceptor.Mutation{Modified: changed != string(c.Payload), Payload: jsonx.Value(changed)}, nil
			}),
		interceptor.Sink(interceptor.Descriptor{Name: "acme/recorder", Hooks: interceptor.OnResponse("*")},
			func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
				return interceptor.Receipt{Recorded: true, Metrics: map[string]float64{"n": 1}}, nil
			}),
		interceptor.Validator(interceptor.Descriptor{Name: "acme/broken", Mode: schemas.ModeAudit, Hooks: interceptor.OnRequest("prompts/get")},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
				return interceptor.Verdict{}, errors.New("no database")
			}),
		interceptor.Validator(interceptor.Descriptor{Name: "acme/slow", Hooks: interceptor.OnRequest("prompts/list")},
			func(ctx context.Context, _ *interceptor.Call) (interceptor.Verdict, error) {
				<-ctx.Done()
				return interceptor.Verdict{}, ctx.Err()
			}),
	)
}

// sampleChild serves the sample over stdio: lean, or installed on a go-sdk server.
func sampleChild(kind string) error {
	server, err := sampleServer()
	if err != nil {
		return err
	}
	if kind == "lean" {
		return server.ServeStdio(context.Background(), os.Stdin, os.Stdout)
	}
	sdk := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	if err := server.Install(sdk); err != nil {
		return err
	}
	return sdk.Run(context.Background(), &mcp.StdioTransport{})
}

// sampleTarget is where the JavaScript client finds the sample.
func sampleTarget(t *testing.T, kind, transport string) string {
	t.Helper()
	if transport == overStdio {
		target, err := jsonx.Marshal(map[string]any{"command": self(t), "env": map[string]string{sampleEnv: kind}})
		if err != nil {
			t.Fatal(err)
		}
		return string(target)
	}
	server, err := sampleServer()
	if err != nil {
		t.Fatal(err)
	}
	handler := server.HTTPHandler()
	if kind == "go-sdk" {
		sdk := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
		if err := server.Install(sdk); err != nil {
			t.Fatal(err)
		}
		handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk }, nil)
		t.Cleanup(func() {
			for ss := range sdk.Sessions() {
				_ = ss.Close()
			}
		})
	}
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return `{"url":"` + web.URL + `"}`
}

// asked are requests of the JavaScript client, with what our servers have to answer. Durations are
// left out of the comparison.
func asked() (requests string, want []string) {
	invoke := func(name, event, phase, more string) string {
		return `{"method":"interceptor/invoke","params":{"name":"` + name + `","event":"` + event + `","phase":"` + phase + `"` + more + `}}`
	}
	list := []string{
		`{"method":"interceptors/list","params":{"event":"tools/call"}}`,
		invoke("acme/dlp", "tools/call", "request", `,"payload":{"name":"t"}`),
		invoke("acme/dlp", "tools/call", "request", `,"payload":{"name":"evil"},"context":{"sessionId":"s"}`),
		invoke("acme/redactor", "tools/call", "request", `,"payload":{"method":"tools/call","params":{"x":"secret","big":1}}`),
		invoke("acme/recorder", "resources/read", "response", `,"payload":{}`),
		invoke("acme/none", "tools/call", "request", `,"payload":{}`),
		invoke("acme/dlp", "tools/call", "response", `,"payload":{}`),
		invoke("acme/broken", "prompts/get", "request", `,"payload":{}`),
		invoke("acme/slow", "prompts/list", "request", `,"payload":{},"timeoutMs":50`),
	}
	return "[" + strings.Join(list, ",") + "]", []string{
		`{"interceptors":[{"hooks":[{"events":["tools/call"],"phase":"request"}],"name":"acme/dlp","type":"validation","version":"1"},` +
			`{"hooks":[{"events":["tools/call"],"phase":"request"},{"events":["tools/call"],"phase":"response"}],"name":"acme/redactor","type":"mutation"},` +
			`{"hooks":[{"events":["*"],"phase":"response"}],"name":"acme/recorder","type":"sink"}]}`,
		`{"interceptor":"acme/dlp","phase":"request","type":"validation","valid":true}`,
		`{"interceptor":"acme/dlp","messages":[{"message":"no evil","severity":"error"}],"phase":"request","severity":"error","type":"validation","valid":false}`,
		`{"interceptor":"acme/redactor","modified":true,"payload":{"method":"tools/call","params":{"big":1,"x":"[gone]"}},"phase":"request","type":"mutation"}`,
		`{"interceptor":"acme/recorder","metrics":{"n":1},"phase":"response","recorded":true,"type":"sink"}`,
		`error -32602`, `error -32602`, `error -32603`, `error -32000`,
	}
}

// TestJavaScriptClient has a client of the TypeScript SDK list and invoke our servers.
func TestJavaScriptClient(t *testing.T) {
	requests, want := asked()
	for _, kind := range []string{"lean", "go-sdk"} {
		for _, transport := range []string{overStdio, overHTTP} {
			passed := 0
			t.Run(kind+"/"+transport, func(t *testing.T) {
				got := runJSClient(t, sampleTarget(t, kind, transport), requests)
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Errorf("answer %d differs (-want +got):\n%s", i+1, cmp.Diff(want[i], got[min(i, len(got)-1)]))
						continue
					}
					passed++
				}
			})
			chaintest.Report(t, peerSuite, "JavaScript client, "+kind+" server, "+transport, passed, len(want))
		}
	}
}

func runJSClient(t *testing.T, target, requests string) []string {
	t.Helper()
	command := nodeCommand(t, "interceptor-client.mjs", target, requests)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("JavaScript client: %v\n%s", err, stderr.String())
	}
	var said struct {
		Capabilities jsonx.Value `json:"capabilities"`
		Answers      []struct {
			Result jsonx.Value `json:"result"`
			Error  struct {
				Code int         `json:"code"`
				Data jsonx.Value `json:"data"`
			} `json:"error"`
		} `json:"answers"`
	}
	if err := jsonx.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if !strings.Contains(string(said.Capabilities), `"io.modelcontextprotocol/interceptors":{"supportedEvents":["tools/call","*","prompts/get","prompts/list"]}`) {
		t.Errorf("capabilities are %s", said.Capabilities)
	}
	f := chaintest.Fixture{Volatile: []string{"durationMs"}}
	var answers []string
	for _, a := range said.Answers {
		if a.Result == nil {
			answers = append(answers, "error "+strconv.Itoa(a.Error.Code))
			continue
		}
		text, err := f.Canonical(a.Result)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, text)
	}
	return answers
}
