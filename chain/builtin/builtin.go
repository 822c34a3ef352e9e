package builtin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Namespace is what the names of all built-ins begin with.
const Namespace = "chaintrail/"

// ErrUnknown is returned by [New], with the names there are, for a name that is none of them.
var ErrUnknown = errors.New("no such built-in interceptor")

// ErrConfig is returned, wrapped with the place, for a configuration that a built-in cannot use.
var ErrConfig = errors.New("configuration is wrong")

// Options make an instance of a built-in; nil is allowed.
type Options struct {
	As      string      // name in place of its own, so that several instances can be in one plan
	Version string      // empty: none is told
	Config  jsonx.Value // for calls that bring none; nil: the defaults
	// StateDir is where what has to outlive the process is kept; empty: in memory only. A call cannot name it.
	StateDir string
}

// kind is one built-in.
type kind struct {
	descriptor interceptor.Descriptor
	make       func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error)
}

func kinds() []kind {
	return []kind{
		secretDetector(), secretRedactor(), piiRedactor(), schemaValidator(), celPolicy(),
		sizeLimit(), rateLimit(), leakGuard(), toolChanges(),
	}
}

// Names lists the built-ins.
func Names() []string {
	all := kinds()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].descriptor.Name
	}
	return names
}

// New makes an instance, which has state of its own. The configuration is checked now.
func New(name string, o *Options) (interceptor.Interceptor, error) {
	if o == nil {
		o = &Options{}
	}
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.descriptor.Name == name })
	if i < 0 {
		return interceptor.Interceptor{}, fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	d := all[i].descriptor
	d.Version = o.Version
	if o.As != "" {
		d.Name = o.As
	}
	made, err := all[i].make(d, o)
	if err != nil {
		return interceptor.Interceptor{}, fmt.Errorf("%s: %w", name, err)
	}
	return made, nil
}

// All makes one instance of each built-in with its defaults.
func All(version, stateDir string) ([]interceptor.Interceptor, error) {
	names := Names()
	list := make([]interceptor.Interceptor, 0, len(names))
	for _, name := range names {
		made, err := New(name, &Options{Version: version, StateDir: stateDir})
		if err != nil {
			return nil, err
		}
		list = append(list, made)
	}
	return list, nil
}

// schemaFor derives the schema of a configuration from its Go type; refine may add what types cannot say.
func schemaFor[C any](refine func(*jsonschema.Schema)) jsonx.Value {
	s, err := jsonschema.For[C](nil)
	if err != nil {
		panic("schema of a built-in: " + err.Error()) // the types are fixed: a test would see it
	}
	if refine != nil {
		refine(s)
	}
	text, err := s.MarshalJSON()
	if err != nil {
		panic("schema of a built-in: " + err.Error())
	}
	return text
}

// enum narrows a schema to some texts.
func enum[T ~string](s *jsonschema.Schema, values ...T) {
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
}

// oneOf checks a text of a configuration; empty stands for the default.
func oneOf(key, value string, allowed ...string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%w: %s: %q is not one of %s", ErrConfig, key, value, strings.Join(allowed, ", "))
}

// glob reports whether a pattern with "*" for any run of bytes matches a name.
func glob(pattern, name string) bool { return interceptor.Match(pattern, name, "") }

func anyGlob(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return glob(p, name) })
}
