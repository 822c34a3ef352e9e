package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// TestAnnotatedArguments: a real server that checks the headers against the body takes a call whose
// annotated arguments a mutator changed, added and removed, and one of a client that knows no headers.
func TestAnnotatedArguments(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"http", "stdio"} {
		for _, tt := range []struct{ name, before, after string }{
			{"untouched", `{"where":"eu","deep":{"n":42,"on":true}}`, ""},
			{"changed", `{"where":"eu","note":"eu","deep":{"n":42,"on":true}}`, `{"where":"Österreich","note":"eu","deep":{"n":43,"on":false}}`},
			{"added", `{"note":"x"}`, `{"note":"x","where":"us","deep":{"n":1}}`},
			{"removed", `{"where":"eu","deep":{"n":42}}`, `{"where":null,"deep":{}}`},
		} {
			t.Run(client+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				p := &fakePlan{
					matches: func(event string, phase schemas.Phase) bool {
						return tt.after != "" && event == methodToolsCall && phase == schemas.PhaseRequest
					},
					run: func(_ context.Context, in chain.Input) chain.Result {
						return chain.Result{Modified: true, Payload: replace(in.Payload, tt.before, tt.after)}
					},
				}
				opts := Options{Backends: []Backend{backend(t, "stateless", p)}}
				var cs *mcp.ClientSession
				if client == "http" {
					cs = connect(t, serve(t, opts).url, nil, version20260728)
				} else {
					cs = serveLines(t, opts).connect(t, nil, version20260728)
				}
				if _, err := cs.ListTools(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				want := tt.after
				if want == "" {
					want = tt.before
				}
				res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "routed", Arguments: jsonx.Value(tt.before)})
				if got := textOf(t, res, err); got != want {
					t.Errorf("the server got %s, want %s", got, want)
				}
			})
		}
	}
}

// TestRewriteHeaders: which header follows what.
func TestRewriteHeaders(t *testing.T) {
	t.Parallel()
	const list = `{"tools":[
		{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"Alpha"},"b":{"type":"integer","x-mcp-header":"B"},
			"bad":{"x-mcp-header":"no token"},"odd":{"x-mcp-header":7},"list":{"items":{"properties":{"x":{"x-mcp-header":"Deep"}}}}}}},
		{"name":"u","inputSchema":{"properties":{"c":{"type":"string","x-mcp-header":"Gamma"}}}},
		{"name":"gone","inputSchema":{"properties":{"c":{"type":"string","x-mcp-header":"Gamma"}}}},
		{"name":"gone","inputSchema":{"type":"object"}}, null, 3]}`
	l := &lane{bound: newBindingTable()}
	l.bound.learn([]byte(list))
	if len(l.bound.tools) != 2 {
		t.Errorf("tools with annotations: %v", l.bound.tools)
	}
	call := func(params string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`)
	}
	for _, tt := range []struct {
		name, before, after string
		headers             [2]string // before, after: NAME=VALUE …
	}{
		{"by annotation", `{"name":"t","arguments":{"a":"x","other":"x","b":1}}`, `{"name":"t","arguments":{"a":"y","other":"x","b":2.0}}`, [2]string{"Alpha=x B=1", "Alpha=y B=2"}},
		{"gone and null", `{"name":"t","arguments":{"a":"x","b":1}}`, `{"name":"t","arguments":{"a":null}}`, [2]string{"Alpha=x B=1", ""}},
		{"not repeatable", `{"name":"t","arguments":{"a":"x"}}`, `{"name":"t","arguments":{"a":{}}}`, [2]string{"Alpha=x", ""}},
		{"no arguments", `{"name":"t","arguments":{"a":"x"}}`, `{"name":"t","arguments":[1]}`, [2]string{"Alpha=x", ""}},
		{"another tool", `{"name":"t","arguments":{"a":"x","c":"z"}}`, `{"name":"u","arguments":{"a":"x","c":"z"}}`, [2]string{"Alpha=x", "Gamma=z"}},
		{"never listed, by name", `{"name":"v","arguments":{"a":"x","b":"x"}}`, `{"name":"v","arguments":{"a":"y","b":"x"}}`, [2]string{"A=x", "A=y"}},
		{"never listed, by value", `{"name":"v","arguments":{"a":"x"}}`, `{"name":"v","arguments":{"a":"y"}}`, [2]string{"Else=x", "Else=y"}},
		{"never listed, not clear", `{"name":"v","arguments":{"a":"x","b":"x"}}`, `{"name":"v","arguments":{"a":"y"}}`, [2]string{"Else=x", "Else=x"}},
		{"no longer annotated", `{"name":"gone","arguments":{"c":"x"}}`, `{"name":"gone","arguments":{"c":"y"}}`, [2]string{"C=x", "C=y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			headers := func(list string) http.Header {
				h := http.Header{"Mcp-Method": {methodToolsCall}}
				for kv := range strings.FieldsSeq(list) {
					name, value, _ := strings.Cut(kv, "=")
					h.Set("Mcp-Param-"+name, value)
				}
				return h
			}
			before, after := mustParse(t, call(tt.before)), mustParse(t, call(tt.after))
			got := headers(tt.headers[0])
			l.rewriteHeaders(got, &before, &after)
			if diff := cmp.Diff(headers(tt.headers[1]), got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}
