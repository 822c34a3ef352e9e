package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Enforce says for whom an interceptor is active; for the rest it is in audit mode. Any one that applies is enough.
type Enforce struct {
	Percent    float64  // of sessions, or else of principals, from 0 to 100: one always gets the same
	Tenants    []string // patterns of names, such as "acme-*"
	Tools      []string // of tools, prompts or resource URIs
	Principals []string
}

// The reasons of an effective mode.
const (
	modeTenant    = "canary_tenant"
	modeTool      = "canary_tool"
	modePrincipal = "canary_principal"
	modePercent   = "canary_percent"
	modeRest      = "canary_rest" // nothing applies: audit
)

// rollOut puts what is configured about canary, sample and budget into an entry.
func (o *Override) rollOut(entry *schemas.PlanEntry, origin func(string)) error {
	later := entry.Type == schemas.TypeSink || entry.Mode == schemas.ModeAudit
	switch {
	case o.Enforce != nil && entry.Type == schemas.TypeSink:
		return fmt.Errorf("%w: override of %q of server %q: a sink is never enforced; remove enforce", ErrConfig, entry.Name, entry.Host)
	case o.Enforce != nil && later:
		return fmt.Errorf("%w: override of %q of server %q: it is in audit mode, so that enforce is for nobody; add mode: active, or remove enforce",
			ErrConfig, entry.Name, entry.Host)
	case (o.Sample != nil || o.Budget > 0) && !later && o.Enforce == nil:
		return fmt.Errorf("%w: override of %q of server %q: sample and budget are for sinks and audit mode, and it is active; add enforce or mode: audit, or remove them",
			ErrConfig, entry.Name, entry.Host)
	}
	if o.Enforce != nil {
		text, err := jsonx.MarshalDeterministic(o.Enforce)
		if err != nil {
			return fmt.Errorf("%w: override of %q of server %q: enforce: %w", ErrConfig, entry.Name, entry.Host, err)
		}
		entry.Canary = sha256.Sum256(text)
		origin("enforce")
	}
	if o.Sample != nil {
		entry.Sample = new(int(math.Round(*o.Sample * 100)))
		origin("sample")
	}
	if o.Budget > 0 {
		entry.BudgetMS = max(1, o.Budget.Milliseconds())
		origin("budget")
	}
	return nil
}

// applies returns why an interceptor is active for a message; empty when it is not.
func (e *Enforce) applies(name string, in *Input) string {
	switch {
	case anyMatches(e.Tenants, in.Tenant):
		return modeTenant
	case anyMatches(e.Tools, in.Target):
		return modeTool
	case anyMatches(e.Principals, in.Context.Principal.ID):
		return modePrincipal
	case draw(name, stableKey(in)) < e.Percent:
		return modePercent
	}
	return ""
}

func anyMatches(patterns []string, name string) bool {
	return name != "" && slices.ContainsFunc(patterns, func(p string) bool { return interceptor.Match(p, name, "") })
}

// stableKey is what belongs together for as long as possible.
func stableKey(in *Input) string {
	switch {
	case in.Context.SessionID != "":
		return in.Context.SessionID
	case in.Context.Principal.ID != "":
		return in.Context.Principal.ID
	case in.Context.TraceID != "":
		return in.Context.TraceID
	}
	return string(in.Interception[:])
}

// draw maps a key to [0, 100), evenly, and for each interceptor in its own way.
func draw(name, key string) float64 {
	sum := sha256.Sum256([]byte(name + "\x00" + key))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53) * 100
}

// rolledOut is the sequence as it is for one message: the same order, with interceptors in audit mode where they are not
// enforced, and skipped where the message is not in their sample.
func (s *sequence) rolledOut(in *Input) *sequence {
	own := *s
	own.items = slices.Clone(s.items)
	reasons := make([]string, len(s.items))
	for i, m := range s.items {
		if m.enforce == nil {
			continue
		}
		if reasons[i] = m.enforce.applies(m.entry.Name, in); reasons[i] == "" {
			reasons[i] = modeRest
			shadow := *m
			shadow.entry.Mode = schemas.ModeAudit
			own.items[i] = &shadow
		}
	}
	own.template, own.steps, own.active, own.inPath = nil, nil, nil, false
	own.describe(in.Phase)
	for i, m := range own.items {
		own.template[i].ModeReason = reasons[i]
		if m.Deferred() && m.entry.Sample != nil && draw(m.entry.Name, string(in.Interception[:]))*100 >= float64(*m.entry.Sample) {
			own.template[i].State, own.template[i].SkipReason = schemas.StateSkipped, schemas.SkipSampling
		}
	}
	return &own
}
