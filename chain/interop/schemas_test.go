package interop_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// revision validates against the published schema of one.
type revision struct {
	version string
	text    string
	defs    string // "$defs" or "definitions"
}

func loadRevision(t *testing.T, version string) *revision {
	t.Helper()
	text, err := os.ReadFile("testdata/schema/" + version + ".json")
	if err != nil {
		t.Fatal(err)
	}
	r := &revision{version: version, text: strings.TrimSpace(string(text)), defs: "definitions"}
	if strings.Contains(r.text, `"$defs":`) {
		r.defs = "$defs"
	}
	return r
}

// validate checks a value against one definition of the revision.
func (r *revision) validate(t *testing.T, definition string, value jsonx.Value) {
	t.Helper()
	var schema jsonschema.Schema
	if err := schema.UnmarshalJSON([]byte(`{"$ref":"#/` + r.defs + `/` + definition + `",` + r.text[1:])); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatalf("schema of %s: %v", r.version, err)
	}
	var v any
	if err := jsonx.Unmarshal(value, &v); err != nil {
		t.Errorf("%s: %v in %s", definition, err, value)
		return
	}
	if err := resolved.Validate(v); err != nil {
		t.Errorf("%s of %s: %v\nin %s", definition, r.version, err, value)
	}
}

// errorDefinition is the name of an error answer in the revision.
func (r *revision) errorDefinition() string {
	if r.version >= wire.Version20251125 {
		return "JSONRPCErrorResponse"
	}
	return "JSONRPCError"
}

// libraryServer offers one of everything that has a result.
func libraryServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"a"}}}, nil
		},
	})
	type args struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, args, error) {
		return nil, a, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}}, nil
	})
	read := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://r", Text: "r"}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "test://r", Name: "r"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://{x}", Name: "x"}, read)
	return s
}

// ask is a request with the definition of its result. Denied ones get an error.
type ask struct{ method, params, definition string }

func asks(version string) []ask {
	list := []ask{
		{"tools/list", `{}`, "ListToolsResult"},
		{"tools/call", `{"name":"echo","arguments":{"text":"x"}}`, "CallToolResult"},
		{"prompts/list", `{}`, "ListPromptsResult"},
		{"prompts/get", `{"name":"p"}`, "GetPromptResult"},
		{"resources/list", `{}`, "ListResourcesResult"},
		{"resources/templates/list", `{}`, "ListResourceTemplatesResult"},
		{"resources/read", `{"uri":"test://r"}`, "ReadResourceResult"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`, "CompleteResult"},
		{"tools/call", `{"name":"echo","arguments":{"text":"denied"}}`, ""},
		{"tools/call", `{"name":"echo","arguments":{"text":"slow"}}`, ""},
		{"tools/call", `{"name":"echo","arguments":{"text":"broken"}}`, ""},
		{"no/such", `{}`, ""},
	}
	if wire.Modern(version) {
		return append(list, ask{"server/discover", `{}`, "DiscoverResult"})
	}
	return append(list, ask{"ping", `{}`, "EmptyResult"})
}

// writers change every result and block some requests in each way there is.
func writers(t *testing.T) *interceptor.Server {
	t.Helper()
	has := func(c *interceptor.Call, word string) bool { return strings.Contains(string(c.Payload), `"`+word+`"`) }
	server, err := interceptor.New(
		nil,
		interceptor.Validator(interceptor.Descriptor{Name: "w/deny", Hooks: interceptor.OnRequest("tools/call")},
			func(ctx context.Context, c *interceptor.Call) (interceptor.Verdict, error) {
				if has(c, "slow") {
					<-ctx.Done()
				}
				if has(c, "denied") {
					return interceptor.Deny("no"), nil
				}
				return interceptor.Pass(), nil
			}),
		interceptor.Mutator(interceptor.Descriptor{Name: "w/meta", Hooks: interceptor.Both("*")},
			func(_ context.Context, c *interceptor.Call) (interceptor.Mutation, error) {
				if has(c, "broken") {
					return interceptor.Mutation{}, os.ErrInvalid
				}
				meta, _ := wire.Member(c.Payload, "_meta")
				if meta == nil {
					meta = jsonx.Value("{}")
				}
				return interceptor.Mutation{Modified: true, Payload: wire.WithMember(c.Payload, "_meta", wire.WithMember(meta, "acme/seen", jsonx.Value("true")))}, nil
			}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// TestResultsValidate: what a client gets through the gateway validates against the schema of its
// revision, changed results and our own errors included.
func TestResultsValidate(t *testing.T) {
	t.Parallel()
	for _, version := range wire.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			sdk := libraryServer()
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk }, &mcp.StreamableHTTPOptions{Stateless: wire.Modern(version)}))
			t.Cleanup(func() {
				web.Close()
				for ss := range sdk.Sessions() {
					_ = ss.Close()
				}
			})
			b := gateway.Backend{Name: "b", URL: web.URL, Plan: planOf(t, chain.Config{}, chain.HostSpec{
				Ref: schemas.HostRef{Host: "w"}, Overrides: map[string]chain.Override{"w/deny": {Timeout: 200 * time.Millisecond}},
				Connect: chain.Local(writers(t)),
			})}
			o := newWorld(t, way{overStdio, overHTTP}, b, nil)
			passed, total := askAll(t, loadRevision(t, version), o)
			chaintest.Report(t, "results against the schema", version, passed, total)
		})
	}
}

// askAll makes every request of a revision over lines, the handshake included.
func askAll(t *testing.T, r *revision, o *world) (passed, total int) {
	t.Helper()
	c := &client{world: o}
	c.openLines(t)
	modern := wire.Modern(r.version)
	check := func(what string, raw []byte, definition string) {
		total++
		ok := t.Run(what, func(t *testing.T) {
			msg, err := wire.Parse(raw, wire.Limits{})
			switch {
			case err != nil:
				t.Fatal(err)
			case definition != "" && msg.Kind != wire.KindResponse, definition == "" && msg.Kind != wire.KindError:
				t.Fatalf("got %s", raw)
			case definition == "":
				r.validate(t, r.errorDefinition(), raw)
			default:
				r.validate(t, definition, msg.Result)
			}
		})
		if ok {
			passed++
		}
	}
	if !modern {
		hello := c.call(t, []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+r.version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
		check("initialize", hello, "InitializeResult")
		c.send(t, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	}
	for i, a := range asks(r.version) {
		params := jsonx.Value(a.params)
		if modern {
			params = wire.WithMember(params, "_meta", jsonx.Value(`{"io.modelcontextprotocol/protocolVersion":"`+r.version+`","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`))
		}
		raw := c.call(t, wire.NewRequest(jsonx.Value(strconv.Itoa(i+1)), a.method, params))
		check(a.method+" "+strconv.Itoa(i+1), raw, a.definition)
	}
	// An error whose request could not be read has id null (JSON-RPC 2.0, section 5), for which the schemas
	// have no place: a fault that has an id stands here.
	check("wrong params", c.call(t, []byte(`{"jsonrpc":"2.0","id":"w","method":"tools/call","params":7}`)), "")
	return passed, total
}
