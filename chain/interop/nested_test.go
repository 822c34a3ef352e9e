package interop_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// rawParams and rawResult carry bytes through the go-sdk.
type rawParams struct {
	mcp.ParamsBase
	raw jsonx.Value
}

func (p *rawParams) UnmarshalJSON(b []byte) error { p.raw = bytes.Clone(b); return nil }

type rawResult struct {
	mcp.ResultBase
	raw jsonx.Value
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }

// foreign is a go-sdk server that lists and answers what a test wrote, in any dialect.
func foreign(list string, invoke func(name, phase string, params jsonx.Value) (string, error)) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "foreign", Version: "1"}, nil)
	err := mcp.AddReceivingCustomMethod(s, interceptor.MethodList, func(context.Context, *mcp.ServerSession, *rawParams) (*rawResult, error) {
		return &rawResult{raw: jsonx.Value(`{"interceptors":[` + list + `]}`)}, nil
	})
	if err != nil {
		return nil, err
	}
	err = mcp.AddReceivingCustomMethod(s, interceptor.MethodInvoke, func(_ context.Context, _ *mcp.ServerSession, p *rawParams) (*rawResult, error) {
		name, _ := wire.MemberString(p.raw, "name")
		phase, _ := wire.MemberString(p.raw, "phase")
		text, err := invoke(name, phase, p.raw)
		return &rawResult{raw: jsonx.Value(text)}, err
	})
	return s, err
}

// nestedServer answers as the reference Go SDK does: the members of a result under "validation" or
// "mutation", modes named enforce or empty, a hook whose phase is "both".
func nestedServer() (*mcp.Server, error) {
	hook := `"hooks":[{"events":["tools/call"],"phase":"both"}]`
	list := `{"name":"go/deny","type":"validation","mode":"enforce",` + hook + `},` +
		`{"name":"go/mutate","type":"mutation","mode":"",` + hook + `,"priorityHint":1},` +
		`{"name":"go/odd","type":"mutation","mode":"enforce","hooks":[{"events":["prompts/get"],"phase":"request"}]}`
	return foreign(list, func(name, phase string, params jsonx.Value) (string, error) {
		payload, _ := wire.Member(params, "payload")
		head := `{"interceptor":"` + name + `","phase":"` + phase + `","durationMs":2,`
		switch name {
		case "go/deny":
			if !bytes.Contains(payload, []byte("evil")) {
				return head + `"type":"validation","validation":{"valid":true}}`, nil
			}
			return head + `"type":"validation","validation":{"valid":false,"severity":"error","messages":[{"path":"","message":"no evil","severity":"error"}]}}`, nil
		case "go/mutate":
			changed := bytes.ReplaceAll(payload, []byte("secret"), []byte("[gone]"))
			if bytes.Equal(changed, payload) {
				return head + `"type":"mutation","mutation":{"modified":false},"payload":` + string(payload) + `}`, nil
			}
			return head + `"type":"mutation","mutation":{"modified":true,"info":{"hits":1}},"payload":` + string(changed) + `}`, nil
		}
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown interceptor"}
	})
}

func nestedChild() error {
	s, err := nestedServer()
	if err != nil {
		return err
	}
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// connectSDK reaches a go-sdk server over HTTP, statefully, with sessions.
func connectSDK(t *testing.T, s *mcp.Server) func(context.Context) (chain.Conn, error) {
	t.Helper()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		web.Close()
		for ss := range s.Sessions() {
			_ = ss.Close()
		}
	})
	return chain.Remote(func(context.Context) (wire.Conn, error) { return wire.NewHTTPClient(web.URL, nil), nil }, nil)
}

// TestNestedDialect: a verdict that stands where the reference Go SDK writes it blocks, and a change
// is applied, through a real gateway.
func TestNestedDialect(t *testing.T) {
	for _, transport := range []string{overStdio, overHTTP} {
		connect := chain.Remote(func(context.Context) (wire.Conn, error) {
			return wire.StartChild(wire.ChildConfig{Command: self(t), Env: append(os.Environ(), nestedEnv+"=1")})
		}, nil)
		if transport == overHTTP {
			s, err := nestedServer()
			if err != nil {
				t.Fatal(err)
			}
			connect = connectSDK(t, s)
		}
		plan := planOf(t, chain.Config{}, chain.HostSpec{Ref: schemas.HostRef{Host: "go"}, Timeout: 20 * time.Second, Connect: connect})
		cases := []pathCase{
			{"passes and changes", "tools/call", `{"t":"secret"}`, `{"r":"secret"}`, `{"t":"[gone]"}`, `"result":{"r":"[gone]"}`},
			{"unchanged", "tools/call", `{"t":1}`, "", `{"t":1}`, `"result":{}`},
			{"denied", "tools/call", `{"t":"evil"}`, "", "", `"data":{"validationErrors":[{"interceptor":"go/deny","severity":"error","message":"no evil"}]}`},
			{"denied on the way back", "tools/call", `{"t":1}`, `{"r":"evil"}`, `{"t":1}`, `"data":{"validationErrors":[{"interceptor":"go/deny","severity":"error","message":"no evil"}]}`},
			{"an error fails closed", "prompts/get", `{"t":1}`, "", "", `{"code":-32603,"message":"Interceptor mutation failed"`},
		}
		passed := 0
		for _, c := range cases {
			if t.Run(transport+"/"+c.name, func(t *testing.T) { runPathCase(t, plan, &c) }) {
				passed++
			}
		}
		chaintest.Report(t, peerSuite, "Go server, nested dialect, "+transport, passed, len(cases))
	}
}

// olderDescriptor is one that an older server lists, with what it means today.
type olderDescriptor struct{ name, text, want string }

func olderDescriptors() []olderDescriptor {
	return []olderDescriptor{
		{"single hook", `"type":"validation","hook":{"events":["tools/call"],"phase":"request"}`, "validation active request:tools/call"},
		{"flat", `"type":"validation","events":["tools/call","prompts/get"],"phase":"response"`, "validation active response:tools/call,prompts/get"},
		{"flat both", `"type":"mutation","events":["tools/call"],"phase":"both","mode":"enforce"`, "mutation active request:tools/call response:tools/call"},
		{"both", `"type":"validation","hooks":[{"events":["*"],"phase":"both"}]`, "validation active request:* response:*"},
		{"hooks is an object", `"type":"validation","hooks":{"events":["*"],"phase":"request"}`, "validation active request:*"},
		{"wildcard with its phase", `"type":"validation","events":["*/request"]`, "validation active request:*/request"},
		{"enforce", `"type":"validation","mode":"enforce","hooks":[{"events":["*"],"phase":"request"}]`, "validation active request:*"},
		{"empty mode", `"type":"validation","mode":"","hooks":[{"events":["*"],"phase":"request"}]`, "validation active request:*"},
		{"audit", `"type":"validation","mode":"audit","hooks":[{"events":["*"],"phase":"request"}]`, "validation audit request:*"},
		{"observability", `"type":"observability","hooks":[{"events":["*"],"phase":"request"}]`, "sink active request:*"},
		{"unknown type", `"type":"oracle","hooks":[{"events":["*"],"phase":"request"}]`, "ignored: unknown_type"},
		{"unknown mode", `"type":"validation","mode":"dry","hooks":[{"events":["*"],"phase":"request"}]`, "ignored: unknown_mode"},
		{"sink in audit mode", `"type":"sink","mode":"audit","hooks":[{"events":["*"],"phase":"request"}]`, "ignored: sink_in_audit_mode"},
		{"no hooks", `"type":"validation"`, "ignored: malformed"},
	}
}

// TestOlderDescriptors lists them from a real server and looks at the plan.
func TestOlderDescriptors(t *testing.T) {
	var list []string
	for _, d := range olderDescriptors() {
		list = append(list, `{"name":"`+d.name+`",`+d.text+`}`)
	}
	s, err := foreign(strings.Join(list, ","), nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := planOf(t, chain.Config{}, chain.HostSpec{Ref: schemas.HostRef{Host: "old"}, Connect: connectSDK(t, s)})
	record, _ := plan().(*chain.Plan).Record()
	got := map[string]string{}
	for _, e := range record.Entries {
		words := []string{string(e.Type), string(e.Mode)}
		for _, h := range e.Hooks {
			words = append(words, string(h.Phase)+":"+strings.Join(h.Events, ","))
		}
		got[e.Name] = strings.Join(words, " ")
	}
	for _, n := range record.Ignored {
		got[n.Name] = "ignored: " + n.Reason
	}
	passed := 0
	for _, d := range olderDescriptors() {
		if diff := cmp.Diff(d.want, got[d.name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d.name, diff)
			continue
		}
		passed++
	}
	chaintest.Report(t, peerSuite, "older descriptors", passed, len(olderDescriptors()))
}
