package builtin

import (
	"strings"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	s := server(t, "policy", `{"default":"deny","rules":[
		{"name":"no-outside-mail","when":"tool == 'send_mail' && !arguments.to.endsWith('@example.com')","action":"deny","message":"address outside the company"},
		{"name":"big","when":"has(arguments.n) && arguments.n > 10","action":"warn"},
		{"when":"event == 'tools/call' && server == 'shop' && principal.type == 'user' && 'ops' in principal.claims.groups","action":"allow"},
		{"name":"text","phase":"response","when":"!payload.content.all(c, c.type == 'text')","action":"deny"}]}`, "")
	const ops = `{"principal":{"type":"user","id":"u","claims":{"groups":["ops"]}},"io.chaintrail/server":"shop"}`
	play(t, s, "policy", []step{
		{call, "request", `{"name":"send_mail","arguments":{"to":"a@example.com"}}`, ops, "pass"},
		{call, "request", `{"name":"send_mail","arguments":{"to":"a@example.org"}}`, ops, "error address outside the company"},
		{call, "request", `{"name":"send_mail","arguments":{}}`, ops, "error rule no-outside-mail of the policy cannot be evaluated"},
		{call, "request", `{"name":"x","arguments":{"n":11}}`, ops, "warn rule big of the policy"},
		{call, "request", `{"name":"x","arguments":{"n":1}}`, ops, "pass"},
		{call, "request", `{"name":"x"}`, "", "error no rule of the policy allows this"},
		{call, "request", `{"name":"x"}`, `{"io.chaintrail/server":"shop","principal":{"type":"user"}}`, "error rule rules[2] of the policy cannot be evaluated"},
		{call, "response", `{"content":[{"type":"text"}]}`, `{"io.chaintrail/server":"other"}`, "pass"},
		{call, "response", `{"content":[{"type":"image"}]}`, `{"io.chaintrail/server":"other"}`, "error rule text of the policy"},
	})
	play(t, server(t, "policy", `{"on_error":"skip","rules":[{"when":"arguments.x == 1","action":"deny"}]}`, ""), "policy", []step{
		{call, "request", `{"name":"x"}`, "", "pass"},
		{call, "request", `{"name":"x","arguments":{"x":1}}`, "", "error rule rules[0] of the policy"},
	})
	play(t, server(t, "policy", "", ""), "policy", []step{{call, "request", `[]`, "", "pass"}})
}

// An expression that would take for ever is stopped by its cost, and fails closed.
func TestPolicyCostIsBounded(t *testing.T) {
	t.Parallel()
	s := server(t, "policy", `{"rules":[{"when":"payload.l.all(a, payload.l.all(b, payload.l.all(c, a + b + c >= 0.0)))","action":"allow"}]}`, "")
	payload := `{"l":[` + strings.Repeat("1,", 999) + `1]}`
	start := time.Now()
	play(t, s, "policy", []step{{call, "request", payload, "", "error rule rules[0] of the policy cannot be evaluated"}})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func FuzzPolicyRule(f *testing.F) {
	for _, seed := range []string{"tool == 'x'", "payload.a[0] > 1", "has(arguments.x)", "[1,2].map(x, x)", "'a'.matches('(a*)*b')", "{", ""} {
		f.Add(seed, `{"a":[1]}`)
	}
	env, err := celEnv()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, rule, payload string) {
		if _, err := jsonx.Verify([]byte(payload), 0); err != nil || payload == "" {
			return
		}
		program, err := compileRule(env, "rules[0].when", rule, 1000)
		if err != nil {
			return
		}
		r := compiledRule{"r", "deny", "", "both", program}
		vars, err := celVariables(&interceptor.Call{Event: call, Phase: "request", Payload: jsonx.Value(payload)})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.judge(t.Context(), vars, false); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSchemaValidator(t *testing.T) {
	t.Parallel()
	s := server(t, "schema-validator", `{"unknown":"deny","tools":[{"names":["send_*"],"arguments":{"type":"object","required":["to"],"properties":{"to":{"type":"string","pattern":"@example\\.com$"}}}}]}`, "")
	const shop = `{"io.chaintrail/server":"shop","io.chaintrail/target":"get"}`
	tools := `{"tools":[{"name":"get","inputSchema":{"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false},"outputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}},{"name":"bad","inputSchema":{"$ref":"#"}}]}`
	play(t, s, "schema-validator", []step{
		{call, "request", `{"name":"send_mail","arguments":{"to":"a@example.com"}}`, shop, "pass"},
		{call, "request", `{"name":"send_mail","arguments":{"to":"geheim"}}`, shop, "error arguments: arguments does not match the schema at /properties/to (pattern)"},
		{call, "request", `{"name":"send_mail"}`, shop, "error arguments: arguments does not match the schema at root (required)"},
		{call, "request", `{"name":"get","arguments":{"id":1}}`, shop, "error no schema of this tool is known: list the tools first, or configure one"},
		{list, "response", tools, shop, "warn tools.1.inputSchema: cannot be used as a schema, and is not checked"},
		{call, "request", `{"name":"get","arguments":{"id":1}}`, shop, "pass"},
		{call, "request", `{"name":"get","arguments":{"id":1,"geheim":2}}`, shop, "error arguments: arguments does not match the schema at root"},
		{call, "request", `{"name":"get"}`, shop, "pass"},
		{call, "request", `{"name":"get"}`, `{"io.chaintrail/server":"other"}`, "error no schema of this tool is known: list the tools first, or configure one"},
		{call, "response", `{"structuredContent":{"n":1.5}}`, shop, "pass"},
		{call, "response", `{"structuredContent":{"n":"geheim"}}`, shop, "error structuredContent: structuredContent does not match the schema at /properties/n (type)"},
		{call, "response", `{"content":[]}`, shop, "error the tool has a schema for its result, and answered without structuredContent"},
		{call, "response", `{"isError":true,"content":[]}`, shop, "pass"},
		{call, "response", `{"structuredContent":1}`, "", "pass"},
	})
	play(t, server(t, "schema-validator", `{"listed":"ignore"}`, ""), "schema-validator", []step{
		{list, "response", tools, shop, "warn tools.1.inputSchema: cannot be used as a schema, and is not checked"},
		{call, "request", `{"name":"get","arguments":{"id":"x"}}`, shop, "pass"},
	})
}

func FuzzPlaceOf(f *testing.F) {
	f.Add(`{"a":[{"b~/c":"x"}]}`, 14)
	f.Add(`"x"`, 1)
	f.Fuzz(func(_ *testing.T, v string, at int) { placeOf(jsonx.Value(v), at) })
}
