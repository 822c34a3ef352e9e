package interceptor

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Descriptor says what an interceptor is (SEP-2624). Name and Hooks are required; the constructors set Type.
type Descriptor struct {
	Name        string                  `json:"name"` // unique in a server; namespace/name by custom
	Version     string                  `json:"version,omitzero"`
	Description string                  `json:"description,omitzero"`
	Type        schemas.InterceptorType `json:"type"`
	Hooks       []schemas.Hook          `json:"hooks"`         // a hook without a phase means both
	Mode        schemas.Mode            `json:"mode,omitzero"` // empty means active; never set for a sink
	FailOpen    bool                    `json:"failOpen,omitzero"`
	Priority    Priority                `json:"priorityHint,omitzero"` // orders mutators: lower runs first
	Compat      *Compat                 `json:"compat,omitempty"`
	// ConfigSchema is the JSON Schema (2020-12) of the config member, of type object. It is enforced: an invocation with
	// another config is refused with -32602, and properties that it lacks get the schema's defaults.
	ConfigSchema jsonx.Value `json:"configSchema,omitempty"`
	// DefaultConfig is the config of invocations that bring none; it is not advertised.
	DefaultConfig jsonx.Value `json:"-"`
	Meta          jsonx.Value `json:"_meta,omitempty"`
}

// Priority orders mutators within a phase.
type Priority struct {
	Request  int32 `json:"request,omitzero"`
	Response int32 `json:"response,omitzero"`
}

// Compat bounds the protocol versions an interceptor is written for.
type Compat struct {
	MinProtocol string `json:"minProtocol"`
	MaxProtocol string `json:"maxProtocol,omitzero"`
}

// OnRequest hooks the request phase of the events; "*" is all, "tools/*" a namespace.
func OnRequest(events ...string) []schemas.Hook {
	return []schemas.Hook{{Events: events, Phase: schemas.PhaseRequest}}
}

// OnResponse hooks the response phase of the events.
func OnResponse(events ...string) []schemas.Hook {
	return []schemas.Hook{{Events: events, Phase: schemas.PhaseResponse}}
}

// Both hooks both phases of the events, request first.
func Both(events ...string) []schemas.Hook {
	return append(OnRequest(events...), OnResponse(events...)...)
}

// ErrDescriptor is returned by [New], wrapped with the name and the fault, for a descriptor that the
// specification does not allow.
var ErrDescriptor = errors.New("invalid descriptor")

// Bounds of a descriptor: those of the hosts that list it.
const (
	maxEvents     = 1000 // all hooks together
	maxNameLength = 256  // bytes of a name, version or event
	versionDate   = "2006-01-02"
)

// spelledBoth is how older texts write a hook without a phase.
const spelledBoth schemas.Phase = "both"

// normal brings the descriptor into the form that is advertised: a hook without a phase becomes two, request first.
func (d Descriptor) normal() Descriptor {
	var hooks []schemas.Hook
	for _, h := range d.Hooks {
		if h.Phase == "" || h.Phase == spelledBoth {
			hooks = append(hooks, Both(h.Events...)...)
			continue
		}
		hooks = append(hooks, h)
	}
	d.Hooks = hooks
	if d.Mode == schemas.ModeActive {
		d.Mode = "" // defaults are not written
	}
	return d
}

func (d *Descriptor) validate() error {
	var fault string
	switch {
	case d.Name == "":
		fault = "name is empty"
	case !nameable(d.Name) || !nameable(d.Version):
		fault = "name or version is longer than 256 bytes, or holds control characters"
	case len(d.Hooks) == 0:
		fault = "hooks are empty: name at least one event"
	case d.Type == schemas.TypeSink && d.Mode != "":
		fault = "a sink has no mode"
	case d.Mode != "" && d.Mode != schemas.ModeAudit && d.Mode != schemas.ModeActive:
		fault = fmt.Sprintf("mode %q is neither active nor audit", d.Mode)
	case d.Meta != nil && !isObject(d.Meta):
		fault = "_meta is not a JSON object"
	default:
		fault = cmp.Or(d.hookFault(), d.Compat.fault())
	}
	if fault != "" {
		return fmt.Errorf("interceptor %q: %w: %s", d.Name, ErrDescriptor, fault)
	}
	return nil
}

func (d *Descriptor) hookFault() string {
	count := 0
	for i, h := range d.Hooks {
		switch {
		case h.Phase != schemas.PhaseRequest && h.Phase != schemas.PhaseResponse:
			return fmt.Sprintf("hooks[%d]: phase %q is neither request nor response; leave it out for both", i, h.Phase)
		case len(h.Events) == 0:
			return fmt.Sprintf("hooks[%d]: no events", i)
		}
		for k, e := range h.Events {
			if e == "" || !nameable(e) {
				return fmt.Sprintf("hooks[%d].events[%d]: empty, longer than 256 bytes, or with control characters", i, k)
			}
		}
		count += len(h.Events)
	}
	if count > maxEvents {
		return fmt.Sprintf("%d events in all hooks, more than %d", count, maxEvents)
	}
	return ""
}

func (c *Compat) fault() string {
	if c == nil {
		return ""
	}
	if _, err := time.Parse(versionDate, c.MinProtocol); err != nil {
		return fmt.Sprintf("compat.minProtocol %q is not a protocol version like 2025-06-18", c.MinProtocol)
	}
	if c.MaxProtocol == "" {
		return ""
	}
	if _, err := time.Parse(versionDate, c.MaxProtocol); err != nil || c.MaxProtocol < c.MinProtocol {
		return fmt.Sprintf("compat.maxProtocol %q is not a protocol version from minProtocol on", c.MaxProtocol)
	}
	return ""
}

// nameable tells whether hosts take s as a name.
func nameable(s string) bool {
	return len(s) <= maxNameLength && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func isObject(v jsonx.Value) bool {
	traits, err := jsonx.Verify(v, 0)
	return err == nil && traits == (jsonx.Traits{}) && strings.HasPrefix(strings.TrimLeft(string(v), " \t\r\n"), "{")
}

// hooked tells whether event in phase is among the hooks.
func (d *Descriptor) hooked(event string, phase schemas.Phase) bool {
	for _, h := range d.Hooks {
		if h.Phase != phase {
			continue
		}
		for _, pattern := range h.Events {
			if Match(pattern, event, phase) {
				return true
			}
		}
	}
	return false
}

// Match tells whether the event pattern of a hook matches an event: "*" is any, "*/request" and
// "*/response" are any in that phase; any other "*" stands for any run of bytes, as in "tools/*".
func Match(pattern, event string, phase schemas.Phase) bool {
	switch pattern {
	case event, "*":
		return true
	case "*/request":
		return phase == schemas.PhaseRequest
	case "*/response":
		return phase == schemas.PhaseResponse
	}
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(event, parts[0])
	if !ok || len(parts) == 1 {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] { // the leftmost place for each part is always good enough
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[last])
}
