// Package schema compiles JSON Schemas that come from outside, so that using one cannot harm the process.
//
// The library follows a schema without bounds: a reference to itself overflows the stack, which ends the process, and
// references that double at each level take for ever. So how often one place of a value can be looked at is counted
// before a schema is used, and values nested deeper than that holds for are refused.
package schema

import (
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// MaxSize bounds a schema, in bytes.
const MaxSize = 256 << 10

// MaxNesting bounds how deep the text of a schema is nested.
const MaxNesting = 200

// ErrTooDeep is returned by [Schema.Validate] for values that the schema cannot be checked for at a bounded cost.
var ErrTooDeep = errors.New("nested deeper than the schema can be checked for")

// Options say how a schema is compiled; nil means the zero value.
type Options struct {
	Defaults bool // check that each default matches its schema
}

// Schema is a JSON Schema that is safe to use. All methods are concurrent.
type Schema struct {
	resolved *jsonschema.Resolved
	depth    int // levels of values that it is used for
}

// Compile makes a schema ready. It refuses what is no schema, is larger than [MaxSize] or nested deeper than [MaxNesting],
// or cannot be used at a bounded cost. Only references by JSON pointer within the document are followed; others are refused.
func Compile(text jsonx.Value, opts *Options) (*Schema, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("schema of %d bytes; at most %d are read", len(text), MaxSize)
	}
	if _, err := jsonx.Verify(text, MaxNesting); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	var document any // strict: what is there twice is refused, so that the library reads no other member than the guard
	if err := jsonx.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	depth, err := bound(document)
	if err != nil {
		return nil, fmt.Errorf("schema cannot be used: %w", err)
	}
	var s jsonschema.Schema
	if err := s.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: opts != nil && opts.Defaults})
	if err != nil {
		return nil, fmt.Errorf("resolve schema: %w", err)
	}
	return &Schema{resolved, depth}, nil
}

// Document is the schema itself; it MUST NOT be changed.
func (s *Schema) Document() *jsonschema.Schema { return s.resolved.Schema() }

// Validate checks a decoded value, with [ErrTooDeep] for one that cannot be. Other errors are the library's, which hold
// parts of the value.
func (s *Schema) Validate(value any) error {
	if depthOf(value, s.depth+1) > s.depth {
		return fmt.Errorf("%w: at most %d levels", ErrTooDeep, s.depth)
	}
	return s.resolved.Validate(value)
}
