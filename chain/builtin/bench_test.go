package builtin

import (
	"strings"
	"testing"
)

// BenchmarkInvoke is one invocation in process on a call of 2 KiB that passes.
func BenchmarkInvoke(b *testing.B) {
	const event = "tools/call"
	text := strings.Repeat("quarterly report for the northern region, as agreed. ", 38)
	payload := `{"name":"send_mail","arguments":{"to":"Ada","text":"` + text + `"}}`
	const context = `{"principal":{"type":"user","id":"u-17"},"timestamp":"2026-11-30T12:00:00.000Z","sessionId":"s-3","io.chaintrail/server":"shop"}`
	for _, c := range []struct{ name, config string }{
		{"secret-detector", ""},
		{"secret-redactor", ""},
		{"pii-redactor", ""},
		{"schema-validator", `{"tools":[{"names":["send_mail"],"arguments":{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"text":{"type":"string","maxLength":4000}}}}]}`},
		{"policy", `{"rules":[{"when":"tool == 'send_mail' && arguments.to.endsWith('@example.org')","action":"deny"},{"when":"principal.id == 'nobody'","action":"deny"}]}`},
		{"size-limit", ""},
		{"rate-limit", `{"limits":[{"by":["principal","tool"],"rate":1e9,"per":"second"}]}`},
		{"leak-guard", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := server(b, c.name, c.config, "")
			call := params(c.name, event, "request", payload, context)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Invoke(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("tool-changes", func(b *testing.B) {
		s := server(b, "tool-changes", "", "")
		tool := `{"name":"t%","description":"` + text[:150] + `","inputSchema":{"type":"object"}}`
		var tools []string
		for n := range strings.SplitSeq("0123456789", "") {
			tools = append(tools, strings.Replace(tool, "%", n, 1))
		}
		call := params("tool-changes", "tools/list", "response", `{"tools":[`+strings.Join(tools, ",")+`]}`, context)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Invoke(b.Context(), call); err != nil {
				b.Fatal(err)
			}
		}
	})
}
