package chain

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Plan is the interceptors in force at one server. It never changes: a message that runs keeps its plan while the next
// one is already in force. All methods are concurrent.
type Plan struct {
	config  Config
	record  schemas.Plan
	refs    []schemas.HostRef
	members []*Interceptor // by name

	// sequences caches what is due for an event: read without a lock, replaced as a whole.
	sequences atomic.Pointer[map[sequenceKey]*sequence]
	filling   sync.Mutex // covers replacing sequences
}

// listed is what one interceptor server offers, beside how it is reached.
type listed struct {
	config  *HostConfig
	caller  Caller
	entries []schemas.PlanEntry
	notes   []schemas.PlanNote
}

// newPlan puts what servers list in force, under the configuration; config MUST be validated.
func newPlan(config Config, hosts []listed) (*Plan, error) {
	p := &Plan{config: config, record: schemas.Plan{Server: config.Server}}
	for i := range hosts {
		if err := hosts[i].checkNames(); err != nil {
			return nil, err
		}
		p.record.Ignored = append(p.record.Ignored, hosts[i].notes...)
		p.refs = append(p.refs, hosts[i].config.Ref)
	}
	names, err := p.resolve(hosts)
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		for j := range hosts[i].entries {
			name := names[member{hosts[i].config.Ref.Host, hosts[i].entries[j].Name}]
			if name == "" {
				continue
			}
			if err := p.admit(&hosts[i], hosts[i].entries[j], name); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(p.members, func(a, b *Interceptor) int { return cmp.Compare(a.entry.Name, b.entry.Name) })
	p.record.Entries = make([]schemas.PlanEntry, len(p.members))
	for i, m := range p.members {
		p.record.Entries[i] = m.entry
	}
	text, err := jsonx.MarshalDeterministic(p.record.Entries)
	if err != nil {
		return nil, fmt.Errorf("digest plan: %w", err)
	}
	p.record.Digest = sha256.Sum256(text)
	p.fill()
	return p, nil
}

// admit makes an interceptor a member of the plan, under a name that is unique in it.
func (p *Plan) admit(h *listed, entry schemas.PlanEntry, name string) error {
	entry.Origin = slices.Clone(entry.Origin)
	if err := h.config.apply(&entry); err != nil {
		return err
	}
	override := h.config.Overrides[entry.Name]
	setting := h.config.Ref.Configs[entry.Name]
	if setting != nil {
		canonical, err := jsonx.Canonical(setting)
		if err != nil {
			return fmt.Errorf("%w: config of %q: %w", ErrConfig, entry.Name, err)
		}
		entry.Config = sha256.Sum256(canonical)
	}
	if name != entry.Name {
		entry.Name, entry.ListedAs = name, entry.Name
	}
	m := NewInterceptor(entry, setting, h.caller)
	m.breaker = p.config.Breakers.of(member{entry.Host, cmp.Or(entry.ListedAs, entry.Name)})
	if entry.Mode == schemas.ModeActive {
		m.enforce = override.Enforce
	}
	p.members = append(p.members, m)
	return nil
}

// resolve finds the name of each interceptor in the plan; one that is left out has none, and a note.
func (p *Plan) resolve(hosts []listed) (map[member]string, error) {
	owners := map[string][]string{} // servers, by interceptor name
	for i := range hosts {
		h := &hosts[i]
		for j := range h.entries {
			name := h.entries[j].Name
			if !h.config.wants(name) {
				p.record.Ignored = append(p.record.Ignored, schemas.PlanNote{Host: h.config.Ref.Host, Name: name, Reason: noteFiltered})
				continue
			}
			owners[name] = append(owners[name], h.config.Ref.Host)
		}
	}
	names := map[member]string{}
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		for n, host := range owners[name] {
			as := name
			switch {
			case len(owners[name]) == 1:
			case p.config.Duplicates == DuplicatesKeep:
				as = host + "/" + name
			case n > 0 && p.config.Duplicates == DuplicatesFirst:
				p.record.Ignored = append(p.record.Ignored, schemas.PlanNote{Host: host, Name: name, Reason: noteDuplicate})
				continue
			}
			if other, clash := taken[as]; clash {
				return nil, fmt.Errorf("%w: interceptor %q is listed by servers %q and %q; rename it on one of them, remove one server, or set duplicates to keep or first",
					ErrConfig, as, other, host)
			}
			taken[as], names[member{host, name}] = host, as
		}
	}
	return names, nil
}

// checkNames refuses configuration for an interceptor that the server does not have: it is a slip of the pen, and what
// it was meant to guard would be unguarded.
func (h *listed) checkNames() error {
	known := map[string]bool{}
	for i := range h.entries {
		known[h.entries[i].Name] = true
	}
	for i := range h.notes {
		known[h.notes[i].Name] = true
	}
	for name, o := range h.config.Overrides {
		if !known[name] {
			return fmt.Errorf("%w: override of %q: server %q has no such interceptor", ErrConfig, name, h.config.Ref.Host)
		}
		if i := slices.IndexFunc(h.notes, func(n schemas.PlanNote) bool { return n.Name == name }); i >= 0 && o.Mode != "" {
			return fmt.Errorf("%w: override of %q of server %q: it cannot be in force: %s",
				ErrConfig, name, h.config.Ref.Host, h.notes[i].Reason)
		}
	}
	for name := range h.config.Ref.Configs {
		if !known[name] {
			return fmt.Errorf("%w: config of %q: server %q has no such interceptor", ErrConfig, name, h.config.Ref.Host)
		}
	}
	return nil
}

// Record returns the plan for its event, and how deferred work reaches the servers. The caller MUST NOT change what
// the slices hold.
func (p *Plan) Record() (schemas.Plan, []schemas.HostRef) { return p.record, p.refs }

// Digest identifies the entries.
func (p *Plan) Digest() seal.Hash { return p.record.Digest }

// Interceptors lists what is in force, by name.
func (p *Plan) Interceptors() []*Interceptor { return slices.Clone(p.members) }

// find returns the interceptor of a server; nil if it is not in the plan.
func (p *Plan) find(host, name string) *Interceptor {
	i, _ := slices.BinarySearchFunc(p.members, name, func(m *Interceptor, name string) int { return cmp.Compare(m.entry.Name, name) })
	for ; i < len(p.members) && p.members[i].entry.Name == name; i++ {
		if p.members[i].entry.Host == host {
			return p.members[i]
		}
	}
	return nil
}

// Matches reports whether any interceptor, deferred ones included, has a hook for the event in the phase.
func (p *Plan) Matches(event string, phase schemas.Phase) bool {
	return len(p.sequence(event, phase, schemas.Sending).items) > 0
}

// same reports whether two plans would be recorded alike.
func (p *Plan) same(q *Plan) bool {
	return q != nil && p.record.Digest == q.record.Digest && p.record.Server == q.record.Server &&
		slices.Equal(p.record.Ignored, q.record.Ignored)
}

// deadline is when the whole of a run that starts now has to be over; zero: never.
func (p *Plan) deadline(start time.Time) time.Time {
	if p.config.ChainTimeout < 0 {
		return time.Time{}
	}
	return start.Add(p.config.ChainTimeout)
}
