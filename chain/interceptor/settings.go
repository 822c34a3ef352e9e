package interceptor

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/schema"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// settings enforces the config schema of one interceptor.
type settings struct {
	schema   *schema.Schema // nil: any object
	fallback jsonx.Value    // of invocations that bring no config; nil: none
	refusal  *configFault   // of those, where the schema demands a config
	last     atomic.Pointer[setting]
}

// setting is a config that came and was found good: invokers send the same one again and again.
type setting struct{ sent, effective jsonx.Value }

// configFault says where a config does not match.
type configFault struct{ path, reason string }

// newSettings compiles the schema and checks the default config; nil means that there is nothing to enforce.
func newSettings(d *Descriptor) (*settings, error) {
	if d.ConfigSchema == nil && d.DefaultConfig == nil {
		return nil, nil
	}
	s := &settings{}
	if d.ConfigSchema != nil {
		var err error
		if s.schema, err = compile(d.ConfigSchema); err != nil {
			return nil, fmt.Errorf("configSchema%w", err)
		}
	}
	if d.DefaultConfig != nil {
		if !isObject(d.DefaultConfig) {
			return nil, errors.New("default config is not a JSON object")
		}
		effective, fault := s.check(d.DefaultConfig)
		if fault != nil {
			return nil, fmt.Errorf("default config: %s: %s", fault.path, fault.reason)
		}
		s.fallback = effective
		return s, nil
	}
	if s.fallback, s.refusal = s.check(jsonx.Value(`{}`)); string(s.fallback) == `{}` {
		s.fallback = nil // nothing was sent, and nothing has a default
	}
	return s, nil
}

// configure puts the config in force into the call, or says why the one that came is refused.
func (e *entry) configure(call *Call) *wire.RPCError {
	s := e.settings
	if s == nil {
		return nil
	}
	var fault *configFault
	switch last := s.last.Load(); {
	case call.Config == nil || string(call.Config) == "null":
		call.Config, fault = s.fallback, s.refusal
	case last != nil && bytes.Equal(last.sent, call.Config):
		call.Config = last.effective
	default:
		sent := call.Config
		if call.Config, fault = s.check(sent); fault == nil {
			good := &setting{sent: bytes.Clone(sent)}
			if good.effective = good.sent; len(call.Config) != len(sent) {
				good.effective = bytes.Clone(call.Config)
			}
			s.last.Store(good)
		}
	}
	if fault == nil {
		return nil
	}
	return badConfig(&e.Descriptor, fault)
}

// check applies the schema's defaults and validates.
func (s *settings) check(config jsonx.Value) (jsonx.Value, *configFault) {
	if config.Kind() != '{' {
		return nil, &configFault{"config", "is not an object"}
	}
	if s.schema == nil {
		return config, nil
	}
	effective := withDefaults(s.schema.Document(), config)
	var decoded any
	if err := jsonx.Unmarshal(effective, &decoded); err != nil {
		return nil, &configFault{"config", err.Error()}
	}
	if err := s.schema.Validate(decoded); err != nil {
		return nil, faultOf(err)
	}
	return effective, nil
}

// withDefaults puts the default of each property in where an object lacks it. Objects in objects get theirs; defaults
// behind a $ref or a combination of schemas are annotations only.
func withDefaults(schema *jsonschema.Schema, v jsonx.Value) jsonx.Value {
	if v.Kind() != '{' {
		return v
	}
	names := slices.Sorted(maps.Keys(schema.Properties))
	for _, name := range slices.Backward(names) { // each goes before the ones there are
		property := schema.Properties[name]
		old, has := jsonx.Lookup(v, name)
		switch {
		case !has && property.Default != nil:
			v = wire.WithMember(v, name, withDefaults(property, property.Default))
		case has && len(property.Properties) > 0:
			if filled := withDefaults(property, old); len(filled) != len(old) {
				v = wire.WithMember(v, name, filled)
			}
		}
	}
	return v
}

// faultOf finds the place in the config from the place in the schema, which is all that the validator tells: the last
// one that it names is the innermost.
func faultOf(err error) *configFault {
	fault := &configFault{path: "config", reason: err.Error()}
	const step = "validating "
	for {
		rest, ok := strings.CutPrefix(fault.reason, step)
		if !ok {
			return fault
		}
		place, reason, ok := strings.Cut(rest, ": ")
		if !ok {
			return fault
		}
		fault.path, fault.reason = placeInConfig(place), reason
	}
}

// placeInConfig turns a JSON Pointer into the schema into a path into the config.
func placeInConfig(pointer string) string {
	var path strings.Builder
	path.WriteString("config")
	parts := strings.Split(pointer, "/")
	for i := 1; i < len(parts); i++ {
		switch parts[i] {
		case "properties":
			if i++; i < len(parts) {
				path.WriteString("." + strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i]))
			}
		case "items", "additionalItems", "contains":
			path.WriteString("[]")
		case "prefixItems":
			if i++; i < len(parts) {
				path.WriteString("[" + parts[i] + "]")
			}
		case "additionalProperties", "unevaluatedProperties":
			path.WriteString(".*")
		case "patternProperties":
			i++
			path.WriteString(".*")
		}
	}
	return path.String()
}

func badConfig(d *Descriptor, fault *configFault) *wire.RPCError {
	data := appendQuoted([]byte(`{"interceptor":`), d.Name)
	data = appendQuoted(append(data, `,"path":`...), fault.path)
	data = append(appendQuoted(append(data, `,"reason":`...), clip(fault.reason)), '}')
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: "Invalid params: config does not match configSchema", Data: data}
}
