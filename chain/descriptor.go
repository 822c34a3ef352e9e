package chain

import (
	"fmt"
	"unicode"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Bounds of what one interceptor server may list.
const (
	maxDescriptors = 1000
	maxEvents      = 1000 // of one descriptor, all hooks together
	maxNameLength  = 256  // bytes of a name, version or event
)

// The reasons of a [schemas.PlanNote].
const (
	noteUnknownType = "unknown_type"
	noteUnknownMode = "unknown_mode"
	noteSinkInAudit = "sink_in_audit_mode"
	noteMalformed   = "malformed"
	noteDuplicate   = "duplicate"
	noteFiltered    = "filtered"     // not among the names that are wanted
	noteProtocol    = "incompatible" // not for the protocol version of the session
)

const originDescriptor = "descriptor"

// listing is one page of what an interceptor server offers.
type listing struct {
	entries []schemas.PlanEntry // as the descriptors say, without host and overrides
	notes   []schemas.PlanNote
	cursor  string // of the next page; empty: the last one
}

// parseList reads an answer to interceptors/list, liberally: older shapes of descriptors become the one of today. A
// descriptor that is not understood, or not for the protocol version of the session, becomes a note; an answer that holds no list is an error.
func parseList(host, protocol string, answer jsonx.Value) (listing, error) {
	var page listing
	traits, err := jsonx.Verify(answer, 0)
	if err != nil {
		return page, fmt.Errorf("%w: %w", ErrList, err)
	}
	if traits.Duplicates || traits.InvalidUTF8 {
		return page, fmt.Errorf("%w: a name appears twice, or bytes are not UTF-8", ErrList)
	}
	list, ok := jsonx.Lookup(answer, "interceptors")
	if !ok || list.Kind() != '[' {
		return page, fmt.Errorf("%w: no member interceptors that is an array", ErrList)
	}
	if cursor, ok := jsonx.Lookup(answer, "nextCursor"); ok {
		page.cursor, _ = jsonx.StringOf(cursor)
	}
	seen := map[string]bool{}
	for value := range jsonx.Elements(list) {
		if len(page.entries)+len(page.notes) >= maxDescriptors {
			return page, fmt.Errorf("%w: more than %d interceptors", ErrList, maxDescriptors)
		}
		entry, reason := parseDescriptor(value, protocol)
		entry.Host = host
		if reason == "" && seen[entry.Name] {
			reason = noteDuplicate
		}
		if reason != "" {
			page.notes = append(page.notes, schemas.PlanNote{Host: host, Name: entry.Name, Reason: reason})
			continue
		}
		seen[entry.Name] = true
		page.entries = append(page.entries, entry)
	}
	return page, nil
}

// parseDescriptor reads one descriptor; a reason says why it is not in force. An empty protocol suits all.
func parseDescriptor(value jsonx.Value, protocol string) (entry schemas.PlanEntry, reason string) {
	if value.Kind() != '{' {
		return entry, noteMalformed
	}
	var f descriptorFields
	for m := range jsonx.Members(value) {
		f.set(m)
	}
	ok := true
	entry.Name = readName(f.name, true, &ok)
	entry.Version = readName(f.version, false, &ok)
	if !ok {
		return entry, noteMalformed
	}
	kind, ok := jsonx.StringOf(f.kind)
	switch {
	case !ok:
		return entry, noteMalformed
	case kind == string(schemas.TypeValidation), kind == string(schemas.TypeMutation), kind == string(schemas.TypeSink):
		entry.Type = schemas.InterceptorType(kind)
	case kind == "observability": // its name before it became the sink
		entry.Type = schemas.TypeSink
	default:
		return entry, noteUnknownType
	}
	if entry.Mode, reason = readMode(f.mode, entry.Type); reason != "" {
		return entry, reason
	}
	if !isNull(f.failOpen) {
		if entry.FailOpen, ok = boolOf(f.failOpen); !ok {
			return entry, noteMalformed
		}
	}
	if entry.PriorityRq, entry.PriorityRs, ok = readPriority(f.priority); !ok {
		return entry, noteMalformed
	}
	if entry.Hooks, ok = f.readHooks(); !ok {
		return entry, noteMalformed
	}
	if suits, ok := compatible(f.compat, protocol); !ok {
		return entry, noteMalformed
	} else if !suits {
		return entry, noteProtocol
	}
	entry.Origin = []string{originDescriptor}
	return entry, ""
}

// descriptorFields are the members of a descriptor that mean something here.
type descriptorFields struct {
	name, version, kind, mode, failOpen, priority, compat jsonx.Value
	hooks, hook, events, phase                            jsonx.Value // hook, events and phase: older shapes
}

func (f *descriptorFields) set(m jsonx.Member) {
	switch string(m.Name) {
	case "name":
		f.name = m.Value
	case "version":
		f.version = m.Value
	case "type":
		f.kind = m.Value
	case "mode":
		f.mode = m.Value
	case "failOpen":
		f.failOpen = m.Value
	case "priorityHint":
		f.priority = m.Value
	case "compat":
		f.compat = m.Value
	case "hooks":
		f.hooks = m.Value
	case "hook":
		f.hook = m.Value
	case "events":
		f.events = m.Value
	case "phase":
		f.phase = m.Value
	}
}

// compatible reads the bounds of protocol versions; they are dates, so that they compare as texts.
func compatible(v jsonx.Value, protocol string) (suits, ok bool) {
	if isNull(v) {
		return true, true
	}
	if v.Kind() != '{' {
		return false, false
	}
	ok = true
	bound := func(name string) string {
		m, _ := jsonx.Lookup(v, name)
		return readName(m, false, &ok)
	}
	least, most := bound("minProtocol"), bound("maxProtocol")
	return protocol == "" || ((least == "" || least <= protocol) && (most == "" || protocol <= most)), ok
}

func readName(v jsonx.Value, required bool, ok *bool) string {
	if isNull(v) {
		*ok = *ok && !required
		return ""
	}
	s, isString := jsonx.StringOf(v)
	if !isString || (required && s == "") || len(s) > maxNameLength || !printable(s) {
		*ok = false
		return ""
	}
	return s
}

func printable(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return true
}

// readMode reads every name that a mode ever had.
func readMode(v jsonx.Value, kind schemas.InterceptorType) (mode schemas.Mode, reason string) {
	name := ""
	if !isNull(v) {
		var ok bool
		if name, ok = jsonx.StringOf(v); !ok {
			return "", noteUnknownMode
		}
	}
	switch name {
	case "", "active", "enforce":
		return schemas.ModeActive, ""
	case "audit":
		if kind == schemas.TypeSink {
			return "", noteSinkInAudit
		}
		return schemas.ModeAudit, ""
	default:
		return "", noteUnknownMode
	}
}

// readPriority reads a number for both phases, or an object of one for each.
func readPriority(v jsonx.Value) (request, response int32, ok bool) {
	switch {
	case isNull(v):
		return 0, 0, true
	case v.Kind() == '0':
		err := jsonx.Unmarshal(v, &request)
		return request, request, err == nil
	case v.Kind() == '{':
		var both struct {
			Request  int32 `json:"request"`
			Response int32 `json:"response"`
		}
		err := jsonx.Unmarshal(v, &both)
		return both.Request, both.Response, err == nil
	default:
		return 0, 0, false
	}
}

func (f *descriptorFields) readHooks() ([]schemas.Hook, bool) {
	var hooks []schemas.Hook
	ok := true
	switch {
	case f.hooks.Kind() == '[':
		for hook := range jsonx.Elements(f.hooks) {
			hooks = appendHook(hooks, hook, &ok)
		}
	case f.hooks.Kind() == '{':
		hooks = appendHook(hooks, f.hooks, &ok)
	case f.hook.Kind() == '{':
		hooks = appendHook(hooks, f.hook, &ok)
	case !isNull(f.events):
		hooks = appendHookOf(hooks, f.events, f.phase, &ok)
	}
	count := 0
	for i := range hooks {
		count += len(hooks[i].Events)
	}
	return hooks, ok && len(hooks) > 0 && count <= maxEvents
}

func appendHook(hooks []schemas.Hook, hook jsonx.Value, ok *bool) []schemas.Hook {
	if hook.Kind() != '{' {
		*ok = false
		return hooks
	}
	events, _ := jsonx.Lookup(hook, "events")
	phase, _ := jsonx.Lookup(hook, "phase")
	return appendHookOf(hooks, events, phase, ok)
}

// appendHookOf adds one hook, or two where the phase is "both": the request's first.
func appendHookOf(hooks []schemas.Hook, events, phase jsonx.Value, ok *bool) []schemas.Hook {
	var names []string
	if events.Kind() == '"' {
		names = append(names, readName(events, true, ok))
	}
	if events.Kind() == '[' {
		for event := range jsonx.Elements(events) {
			names = append(names, readName(event, true, ok))
		}
	}
	if len(names) == 0 {
		*ok = false
		return hooks
	}
	name, _ := jsonx.StringOf(phase)
	if isNull(phase) {
		name = phaseOfEvents(names)
	}
	switch name {
	case "request", "response":
		return append(hooks, schemas.Hook{Events: names, Phase: schemas.Phase(name)})
	case "both":
		return append(hooks, schemas.Hook{Events: names, Phase: schemas.PhaseRequest},
			schemas.Hook{Events: names, Phase: schemas.PhaseResponse})
	default:
		*ok = false
		return hooks
	}
}

// phaseOfEvents finds the phase of a hook without one, from wildcards that name theirs.
func phaseOfEvents(events []string) string {
	request, response := false, false
	for _, event := range events {
		switch event {
		case anyRequestEvent:
			request = true
		case anyResponseEvent:
			response = true
		default:
			return ""
		}
	}
	switch {
	case request && response:
		return "both"
	case request:
		return "request"
	default:
		return "response"
	}
}
