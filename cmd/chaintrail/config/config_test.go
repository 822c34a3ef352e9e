package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestErrorsNameKeyValueAndLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, yaml, want string }{
		{"trace", "gateway:\n  trace: on\n", `c.yaml:2: gateway.trace: "on" is not one of header, forward, off`},
		{"a principal of no type", "gateway:\n  principal: {id: x}\n", `c.yaml:2: gateway.principal.type: "" is not one of user, service`},
		{"a principal without a name", "gateway:\n  principal: {type: user}\n", "c.yaml:2: gateway.principal.id: is empty; name the caller, or leave the principal out"},
		{"a typo in the principal", "gateway:\n  principal: {name: x}\n", "c.yaml:2: gateway.principal.name: is not a key here; there are: claims, id, type"},
		{"unknown key", "gateway:\n  lissten: x\n", "c.yaml:2: gateway.lissten: is not a key here; there are: allow_origins, breaker, chain_timeout, deny, duplicates, events, expose_interceptors, listen, max_body, max_depth, metrics, name, principal, principal_header, refresh, repair_schemas, resolve, resolve_idle, server_info, trace"},
		{"bad denial", "gateway:\n  deny:\n    as: silence\n", `c.yaml:3: gateway.deny.as: "silence" is not one of error, result`},
		{"bad detail of a denial", "gateway:\n  deny: {detail: all}\n", `c.yaml:2: gateway.deny.detail: "all" is not one of sep, generic`},
		{"bad breaker", "gateway:\n  breaker: {failures: 0}\n", "c.yaml:2: gateway.breaker.failures: 0 is no number of failures: write 1 or more; a large one is never reached"},
		{"bad pauses of the breaker", "gateway:\n  breaker: {pause: 2m}\n", "c.yaml:2: gateway.breaker: pause 2m0s and max_pause 1m0s: pause is more than 0, and max_pause at least pause"},
		{"bad duplicates", "gateway:\n  duplicates: both\n", `c.yaml:2: gateway.duplicates: "both" is not one of refuse, keep, first`},
		{"bad percentage", override("enforce:\n          percent: 101"), "c.yaml:7: interceptors[0].overrides.acme/x.enforce.percent: 101 is no percentage: write a number from 0 to 100"},
		{"percentage of nothing", override("enforce: {percent: .nan}"), "c.yaml:6: interceptors[0].overrides.acme/x.enforce.percent: NaN is no percentage: write a number from 0 to 100"},
		{"percentage in words", override("enforce: {percent: half}"), "c.yaml:6: interceptors[0].overrides.acme/x.enforce.percent: expected another type than str `half` (a number)"},
		{"unknown key of a canary", override("enforce: {users: [a]}"), "c.yaml:6: interceptors[0].overrides.acme/x.enforce.users: is not a key here; there are: percent, principals, tenants, tools"},
		{"empty pattern of a canary", override("enforce: {tools: [a, '']}"), "c.yaml:6: interceptors[0].overrides.acme/x.enforce.tools[1]: is empty; write a name, in which * stands for any text"},
		{"canary in audit mode", override("mode: audit\n        enforce: {percent: 5}"), "c.yaml:7: interceptors[0].overrides.acme/x.enforce: is for nobody where mode is audit; remove one of them"},
		{"bad sample", override("sample: -1"), "c.yaml:6: interceptors[0].overrides.acme/x.sample: -1 is no percentage: write a number from 0 to 100"},
		{"bad budget", override("budget: -1s"), "c.yaml:6: interceptors[0].overrides.acme/x.budget: -1s is negative"},
		{"empty name filter", "interceptors:\n  - {name: a, url: 'http://h/mcp', only: ['']}\n", "c.yaml:2: interceptors[0].only[0]: is empty; write a name, in which * stands for any text"},
		{"bad repair", "gateway:\n  repair_schemas: sometimes\n", `c.yaml:2: gateway.repair_schemas: "sometimes" is not one of auto, always, never`},
		{"unknown key in a list", "backends:\n  - name: a\n    urll: x\n", "c.yaml:3: backends[0].urll: is not a key here; there are: bridge, command, dir, env, headers, name, shared, transport, url"},
		{"a rule for nobody", "gateway:\n  resolve:\n    - {tool: [x], interceptors: [a]}\n", `c.yaml:3: gateway.resolve[0].interceptors: "a" is not an interceptor server with dynamic: true`},
		{"dynamic without a rule", "interceptors:\n  - {name: a, url: 'http://h/mcp', dynamic: true}\n", `c.yaml:2: interceptors[0].dynamic: no rule of gateway.resolve names "a", so that it would never run`},
		{"bad address", "gateway:\n  listen: nowhere\n", `c.yaml:2: gateway.listen: "nowhere" is not an address: write host:port, such as 127.0.0.1:8787`},
		{"bad enum", "journal:\n  on_full: drop\n", `c.yaml:2: journal.on_full: "drop" is not one of fail, block, shed`},
		{"bad size", "journal:\n  max_bytes: lots\n", `c.yaml:1: "lots" is not a size: write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 512MiB`},
		{"bad duration", "drain_timeout: soon\n", "c.yaml:1: drain_timeout: expected another type than str `soon` (a duration such as 30s)"},
		{"both endpoints", "backends:\n  - name: a\n    url: http://h/mcp\n    command: [x]\n", "c.yaml:2: backends[0]: has both url and command; keep one of them"},
		{"bad transport", "backends:\n  - {name: a, url: 'http://h/mcp', transport: ws}\n", `c.yaml:2: backends[0].transport: "ws" is not one of http, sse`},
		{"transport of a command", "backends:\n  - {name: a, command: [x], transport: sse}\n", `c.yaml:2: backends[0].transport: is for a url, and there is none; leave it out`},
		{"bad bus", "bus:\n  url: 'nats://a:4222,foo bar'\n", `c.yaml:2: bus.url: "foo bar" is not a NATS URL: write nats://host:4222 or tls://host:4222, several with commas between`},
		{"same name twice", "backends:\n  - {name: a, url: 'http://h/mcp'}\n  - {name: a, url: 'http://i/mcp'}\n", `c.yaml:3: backends[1].name: "a" is the name of backends[0] too; names are paths, so each is used once`},
		{"builtin and url", "interceptors:\n  - {name: a, url: 'http://h/mcp', builtin: chaintrail/policy}\n", "c.yaml:2: interceptors[0]: has builtin and also url, command or configs; keep builtin with config, or the others"},
		{"config without builtin", "interceptors:\n  - {name: a, url: 'http://h/mcp', config: {}}\n", "c.yaml:2: interceptors[0]: has as or config without builtin; the configurations of a server's interceptors go under configs: by name"},
		{"fault of a built-in's config", "interceptors:\n  - name: a\n    builtin: chaintrail/leak-guard\n    config: {scope: world}\n", `c.yaml:4: interceptors[0].config: chaintrail/leak-guard: configuration is wrong: scope: "world" is not one of session, principal`},
		{"not YAML", "a: [", "c.yaml: not YAML: line 1: did not find expected node content"},
		{"two documents", "tenant: a\n---\ntenant: b\n", "c.yaml: has more than one YAML document; keep one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("c.yaml", []byte(c.yaml))
			if err == nil {
				t.Fatal("got no error")
			}
			if diff := cmp.Diff(err.Error(), c.want); diff != "" {
				t.Errorf("error differs (-got +want):\n%s", diff)
			}
		})
	}
}

// override is a configuration with one override, whose lines begin with line 6.
func override(lines string) string {
	return "interceptors:\n  - name: a\n    url: http://h/mcp\n    overrides:\n      acme/x:\n        " + lines + "\n"
}

func TestFileOverDefaults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := "tenant: acme\njournal:\n  max_bytes: 2 GiB\ninterceptors:\n  - name: dlp\n    command: [dlp, --strict]\n    timeout: 2s\n    overrides:\n      acme/dlp: {mode: audit, retries: 0, sample: 2.5, budget: 30s}\n      acme/new: {enforce: {percent: 10, tools: [a*]}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Tenant = "acme"
	want.Journal.MaxBytes = 2 << 30
	zero := 0
	want.Interceptors = []Host{{
		Name: "dlp", Command: []string{"dlp", "--strict"}, Timeout: 2 * time.Second,
		Overrides: map[string]Override{
			"acme/dlp": {Mode: "audit", Retries: &zero, Sample: new(2.5), Budget: 30 * time.Second},
			"acme/new": {Enforce: &Enforce{Percent: 10, Tools: []string{"a*"}}},
		},
	}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("configuration differs (-got +want):\n%s", diff)
	}
}

func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	if faults := Default().validate(); len(faults) > 0 {
		t.Errorf("the default configuration has faults: %v", faults)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("gateway:\n  listen: 127.0.0.1:1\n"))
	f.Add([]byte("backends: [{name: a}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse("c.yaml", data); err != nil && err.Error() == "" {
			t.Error("an error has no text")
		}
	})
}

func TestExampleFileIsValid(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join("..", "..", "..", "deploy", "chaintrail.example.yaml")); err != nil {
		t.Error(err)
	}
}

// The examples of these pages are configurations.
func TestExamplesOfDocsAreValid(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for page, least := range map[string]int{"interceptors.md": 2, "samples.md": 1} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		found := blocks.FindAllSubmatch(text, -1)
		if len(found) < least {
			t.Errorf("%s: %d examples were read", page, len(found))
		}
		for _, b := range found {
			if _, err := Parse("docs/"+page, b[1]); err != nil {
				t.Error(err)
			}
		}
	}
}
