package chaintest

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

//go:embed testdata/conformance/fixtures
var fixtures embed.FS

// Fixture is one conformance fixture: interceptors of one session, and steps in order.
type Fixture struct {
	ID           string               `json:"id"`
	Kind         string               `json:"kind"`
	Requirement  string               `json:"requirement"`
	Description  string               `json:"description"`
	Interceptors []FixtureInterceptor `json:"interceptors"`
	Steps        []Step               `json:"steps"`
	Volatile     []string             `json:"volatile"` // members to drop before a comparison
}

// FixtureInterceptor says which behaviour to bind, and how to describe it.
type FixtureInterceptor struct {
	Name     string                  `json:"name"`
	Type     schemas.InterceptorType `json:"type"`
	Behavior string                  `json:"behavior"`
	Events   []string                `json:"events"`
	Phases   string                  `json:"phases"` // request, response or both
	Mode     schemas.Mode            `json:"mode,omitzero"`
	FailOpen bool                    `json:"failOpen,omitzero"`
}

// Step is one step: list and invoke go to the server, apply to a runner.
type Step struct {
	Op      string        `json:"op"` // list, invoke or apply
	Event   string        `json:"event,omitzero"`
	Phase   schemas.Phase `json:"phase,omitzero"`
	Payload jsonx.Value   `json:"payload,omitempty"`
	Context jsonx.Value   `json:"context,omitempty"`
	Params  jsonx.Value   `json:"params,omitempty"`
	Expect  Expectation   `json:"expect"`
}

// Expectation is what a step must give. Empty members say nothing.
type Expectation struct {
	Result                jsonx.Value `json:"result,omitempty"`
	Canonical             string      `json:"canonical,omitzero"`
	ErrorCode             int         `json:"errorCode,omitzero"`
	Decision              string      `json:"decision,omitzero"` // allow or deny
	FinalPayload          jsonx.Value `json:"finalPayload,omitempty"`
	FinalPayloadCanonical string      `json:"finalPayloadCanonical,omitzero"`
	Forbids               []string    `json:"forbids,omitempty"`  // texts the final payload must not hold
	Requires              []string    `json:"requires,omitempty"` // texts it must hold
}

// Fixtures returns all of them, ordered by id.
func Fixtures() ([]Fixture, error) {
	var list []Fixture
	err := fs.WalkDir(fixtures, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fixtures.ReadFile(path)
		if err != nil {
			return err
		}
		var f Fixture
		if err := jsonx.UnmarshalStrict(data, &f); err != nil {
			return fmt.Errorf("fixture %s: %w", path, err)
		}
		list = append(list, f)
		return nil
	})
	return list, err
}

// Bind makes the interceptors of a fixture, with state of their own.
func (f *Fixture) Bind() ([]interceptor.Interceptor, error) {
	list := make([]interceptor.Interceptor, 0, len(f.Interceptors))
	for _, fi := range f.Interceptors {
		d := interceptor.Descriptor{Name: fi.Name, Mode: fi.Mode, FailOpen: fi.FailOpen}
		switch fi.Phases {
		case "request":
			d.Hooks = interceptor.OnRequest(fi.Events...)
		case "response":
			d.Hooks = interceptor.OnResponse(fi.Events...)
		default:
			d.Hooks = interceptor.Both(fi.Events...)
		}
		i, err := Behavior(fi.Behavior, d)
		if err != nil {
			return nil, fmt.Errorf("fixture %s: %w", f.ID, err)
		}
		if i.Descriptor.Type != fi.Type {
			return nil, fmt.Errorf("fixture %s: behaviour %s is a %s, not a %s", f.ID, fi.Behavior, i.Descriptor.Type, fi.Type)
		}
		list = append(list, i)
	}
	return list, nil
}

// Canonical returns the form in which results are compared: volatile members dropped at every level,
// then RFC 8785.
func (f *Fixture) Canonical(v jsonx.Value) (string, error) {
	var decoded any
	if err := jsonx.Unmarshal(v, &decoded); err != nil {
		return "", fmt.Errorf("canonical form: %w", err)
	}
	drop(decoded, f.Volatile)
	text, err := jsonx.Marshal(decoded)
	if err != nil {
		return "", fmt.Errorf("canonical form: %w", err)
	}
	canonical, err := jsonx.Canonical(text)
	return string(canonical), err
}

func drop(v any, names []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range names {
			delete(v, name)
		}
		for _, member := range v {
			drop(member, names)
		}
	case []any:
		for _, element := range v {
			drop(element, names)
		}
	}
}
