package redact

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/chaintrail/chaintrail/internal/detect"
	"github.com/chaintrail/chaintrail/schemas"
)

func TestPolicyFromYAML(t *testing.T) {
	t.Parallel()
	text := `
default: digest
snapshots: deny
rules:
  - {tool: [pay_*, refund], keep: none}
  - {event: tools/call, role: payload.*, keep: full, cap: 1024, snapshots: allow}
detectors: {names: [pin]}
`
	var got Policy
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := Policy{
		Default: schemas.KeepDigest, Snapshots: "deny",
		Rules: []Rule{
			{Tool: Patterns{"pay_*", "refund"}, Keep: schemas.KeepNone},
			{Event: Patterns{"tools/call"}, Role: Patterns{"payload.*"}, Keep: schemas.KeepFull, Cap: 1024, Snapshots: "allow"},
		},
		Redactor: detect.Config{Names: []string{"pin"}},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("the policy was read otherwise (-got +want):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("Validate: %v", err)
	}
}

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		policy Policy
		want   string
	}{
		{"default", Policy{Default: "some"}, `default is "some"`},
		{"keep missing", Policy{Rules: []Rule{{}}}, `rules[0].keep is ""`},
		{"cap below zero", Policy{Rules: []Rule{{Keep: "full", Cap: -1}}}, "rules[0].cap is -1"},
		{"cap of nothing", Policy{Rules: []Rule{{Keep: "none", Cap: 1}}}, "rules[0].cap has no meaning"},
		{"star inside", Policy{Rules: []Rule{{Keep: "full"}, {Keep: "full", Tool: Patterns{"a*b"}}}}, `rules[1].tool: pattern "a*b"`},
		{"empty pattern", Policy{Rules: []Rule{{Keep: "full", Event: Patterns{""}}}}, `rules[0].event: pattern ""`},
		{"phase", Policy{Rules: []Rule{{Keep: "full", Phase: Patterns{"reply"}}}}, `rules[0].phase: "reply"`},
		{"outcome", Policy{Rules: []Rule{{Keep: "full", Outcome: Patterns{"ok"}}}}, `rules[0].outcome: "ok"`},
		{"role", Policy{Rules: []Rule{{Keep: "full", Role: Patterns{"body"}}}}, `rules[0].role: "body"`},
		{"snapshots", Policy{Rules: []Rule{{Keep: "full", Snapshots: "no"}}}, `rules[0].snapshots is "no"`},
		{"detectors", Policy{Redactor: detect.Config{Off: []detect.Kind{"x"}}}, `unknown kind "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.policy.Validate()
			if !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Validate = %v, want an ErrPolicy that says %q", err, tt.want)
			}
		})
	}
}

func TestPolicyDecide(t *testing.T) {
	t.Parallel()
	p := Policy{
		Rules: []Rule{
			{Tenant: Patterns{"acme"}, Outcome: Patterns{"denied"}, Keep: schemas.KeepFull},
			{Server: Patterns{"bank"}, Phase: Patterns{"response"}, Keep: schemas.KeepNone, Snapshots: "deny"},
			{Tool: Patterns{"pay_*"}, Role: Patterns{"payload.*"}, Keep: schemas.KeepDigest},
			{Event: Patterns{"tools/*"}, Keep: schemas.KeepFull, Cap: 9},
		},
	}
	tests := []struct {
		name string
		f    facts
		role schemas.Role
		want verdict
	}{
		{"outcome and tenant", facts{tenant: "acme", outcome: "denied"}, schemas.RoleBefore, verdict{schemas.KeepFull, 0, true}},
		{"other tenant", facts{tenant: "b", outcome: "denied"}, schemas.RoleBefore, verdict{schemas.KeepRedacted, 0, true}},
		{"no outcome yet", facts{tenant: "acme"}, schemas.RoleBefore, verdict{schemas.KeepRedacted, 0, true}},
		{"server and phase", facts{server: "bank", phase: "response"}, schemas.RoleDetail, verdict{schemas.KeepNone, 0, false}},
		{"first match", facts{tool: "pay_out", event: "tools/call"}, schemas.RoleStep, verdict{schemas.KeepDigest, 0, true}},
		{"role differs", facts{tool: "pay_out", event: "tools/call"}, schemas.RoleContext, verdict{schemas.KeepFull, 9, true}},
		{"none", facts{event: "prompts/get"}, schemas.RoleBefore, verdict{schemas.KeepRedacted, 0, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := p.decide(&tt.f, tt.role); got != tt.want {
				t.Errorf("decide = %+v, want %+v", got, tt.want)
			}
		})
	}
}
