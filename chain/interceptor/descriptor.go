package interceptor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Descriptor says what an interceptor is (SEP-2624). Name and Hooks are required; the constructors set Type.
type Descriptor struct {
	Name         string                  `json:"name"` // unique in a server; namespace/name by custom
	Version      string                  `json:"version,omitzero"`
	Description  string                  `json:"description,omitzero"`
	Type         schemas.InterceptorType `json:"type"`
	Hooks        []schemas.Hook          `json:"hooks"`
	Mode         schemas.Mode            `json:"mode,omitzero"` // empty means active; never set for a sink
	FailOpen     bool                    `json:"failOpen,omitzero"`
	Priority     Priority                `json:"priorityHint,omitzero"` // orders mutators: lower runs first
	Compat       *Compat                 `json:"compat,omitempty"`
	ConfigSchema jsonx.Value             `json:"configSchema,omitempty"` // JSON Schema of the config member
	Meta         jsonx.Value             `json:"_meta,omitempty"`
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

func (d *Descriptor) validate() error {
	fault := ""
	switch {
	case d.Name == "":
		fault = "name is empty"
	case len(d.Hooks) == 0:
		fault = "hooks are empty: name at least one event and phase"
	case d.Type == schemas.TypeSink && d.Mode != "":
		fault = "a sink has no mode"
	case d.Mode != "" && d.Mode != schemas.ModeAudit && d.Mode != schemas.ModeActive:
		fault = fmt.Sprintf("mode %q is neither active nor audit", d.Mode)
	case d.ConfigSchema != nil && !isObject(d.ConfigSchema):
		fault = "configSchema is not a JSON object"
	case d.Meta != nil && !isObject(d.Meta):
		fault = "_meta is not a JSON object"
	}
	for _, h := range d.Hooks {
		switch {
		case h.Phase != schemas.PhaseRequest && h.Phase != schemas.PhaseResponse:
			fault = fmt.Sprintf("phase %q of a hook is neither request nor response", h.Phase)
		case len(h.Events) == 0:
			fault = "a hook has no events"
		}
		for _, e := range h.Events {
			if e == "" {
				fault = "an event of a hook is empty"
			}
		}
	}
	if fault != "" {
		return fmt.Errorf("interceptor %q: %w: %s", d.Name, ErrDescriptor, fault)
	}
	return nil
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

// listed tells whether the filter of interceptors/list selects the descriptor.
func (d *Descriptor) listed(filter string) bool {
	for _, h := range d.Hooks {
		for _, pattern := range h.Events {
			if Match(pattern, filter, h.Phase) || Match(filter, pattern, h.Phase) {
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
