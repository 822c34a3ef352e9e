// Package jsonx is the one JSON codec of chaintrail: encoding/json/v2 with strict settings.
// Names are case-sensitive, duplicate names and invalid UTF-8 are refused, unknown members are
// refused only by [UnmarshalStrict]. Nothing else in the module decodes JSON, so that no two
// parsers can judge one message differently (the class of CVE-2026-27896).
package jsonx

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
)

// Value is raw JSON text.
type Value = jsontext.Value

// DefaultMaxDepth bounds the nesting of messages from outside.
const DefaultMaxDepth = 1000

// Marshal encodes v compactly.
func Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// MarshalWrite encodes v compactly to w.
func MarshalWrite(w io.Writer, v any) error { return json.MarshalWrite(w, v) }

// MarshalIndent encodes v for people, map keys in sorted order.
func MarshalIndent(v any) ([]byte, error) {
	return json.Marshal(v, jsontext.WithIndent("  "), json.Deterministic(true))
}

// MarshalDeterministic encodes v with map keys in sorted order, for digests.
func MarshalDeterministic(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }

// Unmarshal decodes one JSON value; unknown members are ignored.
func Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// UnmarshalStrict decodes one JSON value; an unknown member is an error.
func UnmarshalStrict(data []byte, v any) error {
	return json.Unmarshal(data, v, json.RejectUnknownMembers(true))
}

// Canonical returns the RFC 8785 form. Integers beyond 2^53 lose digits in that form: compare raw
// bytes too where it matters.
func Canonical(v Value) (Value, error) {
	c := v.Clone()
	if err := c.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return c, nil
}

// Position is where in a JSON text an error was found.
type Position struct {
	Offset  int64  // bytes
	Pointer string // RFC 6901
}

// PositionOf tells where in the text err was found; ok is false when err does not say.
func PositionOf(err error) (Position, bool) {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return Position{Offset: e.ByteOffset, Pointer: string(e.JSONPointer)}, true
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		return Position{Offset: e.ByteOffset, Pointer: string(e.JSONPointer)}, true
	}
	return Position{}, false
}
