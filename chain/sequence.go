package chain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/chaintrail/chaintrail/schemas"
)

// maxSequences bounds the cache of a plan: events are named by callers. What is over it is computed each time.
const maxSequences = 1024

type sequenceKey struct {
	event     string
	phase     schemas.Phase
	direction schemas.Direction
}

// sequence is what is due for one event, phase and direction, in the order of the run.
type sequence struct {
	items      []*Interceptor
	template   []schemas.Invocation // what is known of each invocation before it happens
	steps      []string             // name of the open item that holds what item i made
	mutators   span
	validators span
	sinks      span
	active     []int // validators that run in the path
	inPath     bool  // anything runs in the path
	varies     bool  // the message decides on modes or samples
}

// span is a range of items.
type span struct{ from, to int }

// sequence returns what is due. It takes no lock and allocates nothing for what was asked before.
func (p *Plan) sequence(event string, phase schemas.Phase, direction schemas.Direction) *sequence {
	key := sequenceKey{event, phase, direction}
	known := p.sequences.Load()
	if s := (*known)[key]; s != nil {
		return s
	}
	s := p.compute(key)
	if len(*known) >= maxSequences {
		return s
	}
	p.filling.Lock()
	defer p.filling.Unlock()
	next := maps.Clone(*p.sequences.Load())
	next[key] = s
	p.sequences.Store(&next)
	return s
}

// fill computes what will be asked for, so that made-up events cannot push it out of the cache.
func (p *Plan) fill() {
	events := map[string]bool{}
	for _, event := range knownEvents() {
		events[event] = true
	}
	for _, m := range p.members {
		for _, hook := range m.entry.Hooks {
			for _, event := range hook.Events {
				events[event] = true
			}
		}
	}
	all := map[sequenceKey]*sequence{}
	for event := range events {
		for _, phase := range []schemas.Phase{schemas.PhaseRequest, schemas.PhaseResponse} {
			for _, direction := range []schemas.Direction{schemas.Sending, schemas.Receiving} {
				key := sequenceKey{event, phase, direction}
				all[key] = p.compute(key)
			}
		}
	}
	p.sequences.Store(&all)
}

func knownEvents() []string {
	return []string{
		"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/read",
		"resources/subscribe", "resources/unsubscribe", "resources/templates/list", "completion/complete",
		"logging/setLevel", "sampling/createMessage", "elicitation/create", "roots/list",
	}
}

// compute orders the matching interceptors: sending mutates, validates, and hands over to sinks; receiving validates,
// hands over, and mutates.
func (p *Plan) compute(key sequenceKey) *sequence {
	var mutators, validators, sinks []*Interceptor
	for _, m := range p.members {
		if !MatchHooks(m.entry.Hooks, key.event, key.phase) {
			continue
		}
		switch m.entry.Type {
		case schemas.TypeMutation:
			mutators = append(mutators, m)
		case schemas.TypeValidation:
			validators = append(validators, m)
		case schemas.TypeSink:
			sinks = append(sinks, m)
		}
	}
	s := &sequence{}
	add := func(list []*Interceptor) span {
		slices.SortStableFunc(list, func(a, b *Interceptor) int {
			return cmp.Or(cmp.Compare(a.priority(key.phase), b.priority(key.phase)), cmp.Compare(a.entry.Name, b.entry.Name))
		})
		from := len(s.items)
		s.items = append(s.items, list...)
		return span{from, len(s.items)}
	}
	if key.direction == schemas.Sending {
		s.mutators = add(mutators)
		s.validators = add(validators)
		s.sinks = add(sinks)
	} else {
		s.validators = add(validators)
		s.sinks = add(sinks)
		s.mutators = add(mutators)
	}
	s.describe(key.phase)
	return s
}

// describe fills in what every run of the sequence has in common.
func (s *sequence) describe(phase schemas.Phase) {
	for i, m := range s.items {
		e := &m.entry
		inv := schemas.Invocation{
			Interceptor: e.Name, Version: e.Version, Host: e.Host, Type: e.Type, Mode: e.Mode,
			FailOpen: e.FailOpen, Priority: m.priority(phase), Order: i, State: schemas.StateDeferred,
		}
		s.varies = s.varies || m.enforce != nil || (e.Sample != nil && m.Deferred())
		if m.inPath() {
			inv.State, inv.SkipReason = schemas.StateSkipped, schemas.SkipAborted
			s.inPath = true
			if e.Type == schemas.TypeValidation {
				s.active = append(s.active, i)
			}
		}
		s.template = append(s.template, inv)
		s.steps = append(s.steps, schemas.ItemName(schemas.RoleStep, i))
	}
}
