package redact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chaintrail/chaintrail/internal/detect"
	"github.com/chaintrail/chaintrail/schemas"
)

// ErrPolicy is returned, wrapped with the place, for a policy that cannot be used.
var ErrPolicy = errors.New("redaction policy is wrong")

// Policy says what is kept of the values beside an event. The first rule that matches an item
// decides; where none does the item is kept redacted. The zero value keeps everything redacted.
type Policy struct {
	Rules []Rule `yaml:"rules"`
	// Default is how items are kept that no rule matches; empty means redacted.
	Default schemas.Keep `yaml:"default"`
	// Snapshots says whether the true value may travel, encrypted and for a short time, to sinks and
	// audit-mode interceptors where the kept form differs: "allow" (or empty) or "deny". What is
	// denied is not invoked, and recorded as skipped by policy.
	Snapshots string `yaml:"snapshots"`
	// Redactor adapts the detectors.
	Redactor detect.Config `yaml:"detectors"`
}

// Rule is one line of a policy. A criterion that is left out matches everything; several patterns of
// one criterion match when one of them does. A pattern is a name, "*", or a beginning with "*" after
// it, such as "tools/*".
type Rule struct {
	Event   Patterns `yaml:"event"`   // MCP method or hook event
	Server  Patterns `yaml:"server"`  // configured name of the backend
	Tool    Patterns `yaml:"tool"`    // tool or prompt name, or resource URI: as listed, else as asked for
	Tenant  Patterns `yaml:"tenant"`  // configured name
	Phase   Patterns `yaml:"phase"`   // request or response
	Outcome Patterns `yaml:"outcome"` // matches outcome events only
	Role    Patterns `yaml:"role"`    // role of the item, such as payload.before, context or detail

	Keep schemas.Keep `yaml:"keep"` // required
	// Cap bounds the kept form in bytes; the rest is cut off and the item flagged "capped". Zero means no bound.
	Cap int `yaml:"cap"`
	// Snapshots is as in Policy, for the items of this rule; empty means as there.
	Snapshots string `yaml:"snapshots"`
}

// Patterns is a list of patterns; in YAML one alone may stand without the list.
type Patterns []string

// UnmarshalYAML reads a text or a list of texts.
func (p *Patterns) UnmarshalYAML(decode func(any) error) error {
	var one string
	if err := decode(&one); err == nil {
		*p = Patterns{one}
		return nil
	}
	var many []string
	if err := decode(&many); err != nil {
		return err
	}
	*p = many
	return nil
}

const (
	snapshotsAllow = "allow"
	snapshotsDeny  = "deny"
)

// Validate names the rule, the key and the value that is wrong.
func (p *Policy) Validate() error {
	if p.Default != "" && !knownKeep(p.Default) {
		return keepError("default", p.Default)
	}
	if err := validSnapshots("snapshots", p.Snapshots); err != nil {
		return err
	}
	if err := p.Redactor.Validate(); err != nil {
		return fmt.Errorf("%w: detectors: %w", ErrPolicy, err)
	}
	for i := range p.Rules {
		if err := p.Rules[i].validate(fmt.Sprintf("rules[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) validate(at string) error {
	if !knownKeep(r.Keep) {
		return keepError(at+".keep", r.Keep)
	}
	if r.Cap < 0 {
		return fmt.Errorf("%w: %s.cap is %d: it must be a number of bytes, or 0 for no bound", ErrPolicy, at, r.Cap)
	}
	if r.Cap > 0 && r.Keep != schemas.KeepRedacted && r.Keep != schemas.KeepFull {
		return fmt.Errorf("%w: %s.cap has no meaning with keep %s: leave it out", ErrPolicy, at, r.Keep)
	}
	if err := validSnapshots(at+".snapshots", r.Snapshots); err != nil {
		return err
	}
	for _, c := range []struct {
		key    string
		values Patterns
		known  []string
	}{
		{"event", r.Event, nil},
		{"server", r.Server, nil},
		{"tool", r.Tool, nil},
		{"tenant", r.Tenant, nil},
		{"phase", r.Phase, []string{string(schemas.PhaseRequest), string(schemas.PhaseResponse)}},
		{"outcome", r.Outcome, outcomes()},
		{"role", r.Role, roles()},
	} {
		for _, v := range c.values {
			if v == "" || strings.Contains(strings.TrimSuffix(v, "*"), "*") {
				return fmt.Errorf("%w: %s.%s: pattern %q: write a name, \"*\", or a beginning with one \"*\" at its end", ErrPolicy, at, c.key, v)
			}
			if c.known != nil && !slices.ContainsFunc(c.known, func(name string) bool { return matches(v, name) }) {
				return fmt.Errorf("%w: %s.%s: %q matches none of %s", ErrPolicy, at, c.key, v, strings.Join(c.known, ", "))
			}
		}
	}
	return nil
}

func knownKeep(k schemas.Keep) bool {
	switch k {
	case schemas.KeepNone, schemas.KeepDigest, schemas.KeepRedacted, schemas.KeepFull:
		return true
	}
	return false
}

func keepError(at string, k schemas.Keep) error {
	return fmt.Errorf("%w: %s is %q: it must be none, digest, redacted or full", ErrPolicy, at, k)
}

func validSnapshots(at, v string) error {
	if v != "" && v != snapshotsAllow && v != snapshotsDeny {
		return fmt.Errorf("%w: %s is %q: it must be allow or deny", ErrPolicy, at, v)
	}
	return nil
}

func outcomes() []string {
	return []string{
		string(schemas.OutcomeAllowed), string(schemas.OutcomeDenied), string(schemas.OutcomeError),
		string(schemas.OutcomeCancelled), string(schemas.OutcomeLost), string(schemas.OutcomeStopped),
	}
}

func roles() []string {
	return []string{
		string(schemas.RoleBefore), string(schemas.RoleAfter), string(schemas.RoleStep),
		string(schemas.RoleContext), string(schemas.RoleDetail), string(schemas.RoleHosts),
	}
}

func matches(pattern, name string) bool {
	if before, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, before)
	}
	return pattern == name
}

func (p Patterns) match(name string) bool {
	return len(p) == 0 || slices.ContainsFunc(p, func(pattern string) bool { return matches(pattern, name) })
}

// facts is what rules look at.
type facts struct {
	event, server, tool, tenant, phase, outcome string
}

// verdict is what a policy says about one item.
type verdict struct {
	keep     schemas.Keep
	limit    int
	snapshot bool
}

func (p *Policy) decide(f *facts, role schemas.Role) verdict {
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Role.match(string(role)) && r.Event.match(f.event) && r.Server.match(f.server) && r.Tool.match(f.tool) &&
			r.Tenant.match(f.tenant) && r.Phase.match(f.phase) && r.Outcome.match(f.outcome) {
			return verdict{r.Keep, r.Cap, cmp.Or(r.Snapshots, p.Snapshots) != snapshotsDeny}
		}
	}
	return verdict{keep: cmp.Or(p.Default, schemas.KeepRedacted), snapshot: p.Snapshots != snapshotsDeny}
}

// asksForTool reports whether any rule looks at the tool.
func (p *Policy) asksForTool() bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return len(r.Tool) > 0 })
}
