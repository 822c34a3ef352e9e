package interop_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const peerSuite = "foreign peers"

// pathCase is one message through the gateway, with interceptors of a foreign server in the path.
type pathCase struct {
	name, method, params string
	result               string // of the server; empty: {}
	arrives              string // params at the server; empty: it is denied
	answer               string // what the client's answer holds
}

func jsCases() []pathCase {
	return []pathCase{
		{
			"passes, two mutators by priority", "tools/call", `{"name":"t","arguments":{"text":"shout"},"n":9007199254740991}`, "",
			`{"name":"t","arguments":{"text":"SHOUT","stamp":"seal","session":"s"},"n":9007199254740991}`, `"result":{}`,
		},
		{"a validator denies", "tools/call", `{"name":"t","arguments":{"text":"evil"}}`, "", "", `{"code":-32602,"message":"Interceptor validation failed","data":{"validationErrors":[{"interceptor":"js/deny-evil","severity":"error","message":"no evil"}]}}`},
		{"a response is mutated", "tools/call", `{"name":"t","arguments":{}}`, `{"content":[{"type":"text","text":"shout"}]}`, `{"name":"t","arguments":{"stamp":"seal","session":"s"}}`, `"result":{"content":[{"type":"text","text":"SHOUT"}]}`},
		{"its own timeout answer", "prompts/get", `{"name":"p"}`, "", "", `{"code":-32000,"message":"Interceptor execution timeout","data":{"interceptor":"js/slow","timeoutMs":300,"phase":"request","reason":"timeout"}}`},
		{"an exception fails closed", "resources/read", `{"uri":"x:y"}`, "", "", `{"code":-32602,"message":"Interceptor validation failed","data":{"validationErrors":[{"interceptor":"js/throws","severity":"error","message":"the interceptor failed"}]}}`},
		{"only audit and sink", "tools/list", `{"cursor":"ü"}`, `{"tools":[]}`, `{"cursor":"ü"}`, `"result":{"tools":[]}`},
	}
}

// TestJavaScriptServer runs interceptors of the TypeScript SDK, flat dialect, in the path of a gateway.
func TestJavaScriptServer(t *testing.T) {
	for _, transport := range []string{overStdio, overHTTP} {
		passed := 0
		plan := planOf(t, chain.Config{ChainTimeout: 30 * time.Second}, chain.HostSpec{
			Ref:       schemas.HostRef{Host: "js", Configs: map[string]jsonx.Value{"js/stamp": jsonx.Value(`{"stamp":"seal"}`)}},
			Timeout:   20 * time.Second, // a busy machine is not what is tested
			Overrides: map[string]chain.Override{"js/slow": {Timeout: 300 * time.Millisecond}},
			Connect:   jsServer(t, transport),
		})
		checkListed(t, plan().(*chain.Plan))
		for _, c := range jsCases() {
			if t.Run(transport+"/"+c.name, func(t *testing.T) { runPathCase(t, plan, &c) }) {
				passed++
			}
		}
		if t.Run(transport+"/deferred", func(t *testing.T) { checkDeferred(t, plan().(*chain.Plan)) }) {
			passed++
		}
		chaintest.Report(t, peerSuite, "JavaScript server, "+transport, passed, len(jsCases())+1)
	}
}

// checkListed expects all pages of the list, in our form.
func checkListed(t *testing.T, p *chain.Plan) {
	t.Helper()
	var got []string
	for _, i := range p.Interceptors() {
		e := i.Entry()
		got = append(got, strings.Join([]string{e.Name, string(e.Type), string(e.Mode)}, " "))
	}
	want := []string{
		"js/deny-evil validation active", "js/shadow validation audit", "js/sink sink active", "js/slow validation active", "js/stamp mutation active",
		"js/throws validation active", "js/throws-open mutation active", "js/upper mutation active", "js/warn validation active",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}

func runPathCase(t *testing.T, plan func() gateway.Plan, c *pathCase) {
	t.Helper()
	p := newPeer(t, func(msg *wire.Message) reply {
		return say(string(wire.NewResponse(msg.ID, jsonx.Value(cmp.Or(c.result, "{}")))))
	})
	b := p.backend(t, overHTTP)
	b.Plan = plan
	o := newWorld(t, way{overHTTP, overHTTP}, b, nil)
	answer := o.newClient(t, "s").call(t, wire.NewRequest(jsonx.Value("1"), c.method, jsonx.Value(c.params)))
	if !strings.Contains(string(answer), c.answer) {
		t.Errorf("answer is %s, want %s in it", answer, c.answer)
	}
	want := []string(nil)
	if c.arrives != "" {
		want = []string{string(wire.NewRequest(jsonx.Value("1"), c.method, jsonx.Value(c.arrives)))}
	}
	if diff := gocmp.Diff(want, p.requests()); diff != "" {
		t.Errorf("at the server (-want +got):\n%s", diff)
	}
}

// checkDeferred calls sink and audit-mode interceptor as deferred work does.
func checkDeferred(t *testing.T, p *chain.Plan) {
	t.Helper()
	in := chain.Input{Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Payload: jsonx.Value(`{"a":1}`)}
	for _, i := range p.Interceptors() {
		if !i.Deferred() {
			continue
		}
		a := i.Invoke(t.Context(), in, jsonx.Value(`{"io.chaintrail/invocation":"x"}`))
		switch {
		case !a.Finished():
			t.Errorf("%s: %s %s", i.Entry().Name, a.State, a.Error)
		case i.Entry().Type == schemas.TypeSink && (a.Recorded == nil || !*a.Recorded || string(a.Metrics) != `{"bytes":7}`):
			t.Errorf("sink said %+v", a)
		case i.Entry().Type == schemas.TypeValidation && !a.Blocks:
			t.Errorf("audit-mode validator said %+v", a)
		}
	}
}
