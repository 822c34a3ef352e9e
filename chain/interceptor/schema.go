package interceptor

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/chaintrail/chaintrail/internal/schema"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// compile makes a validator of a config schema. Its errors begin with the place, to be put behind a name.
func compile(text jsonx.Value) (*schema.Schema, error) {
	traits, err := jsonx.Verify(text, schema.MaxNesting)
	if err != nil || traits != (jsonx.Traits{}) || text.Kind() != '{' {
		return nil, errors.New(" is not a strict JSON object")
	}
	if fault := schemaFault(text, ""); fault != "" {
		return nil, errors.New(fault)
	}
	if kind, _ := jsonx.Lookup(text, "type"); string(kind) != `"object"` {
		return nil, errors.New(`: type is not "object" (SEP-2624)`)
	}
	s, err := schema.Compile(text, &schema.Options{Defaults: true})
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return s, nil
}

// schemaFault finds what is no JSON Schema 2020-12, and says where. It knows what the validator takes without a word
// or reports without a place.
func schemaFault(v jsonx.Value, at string) string {
	switch v.Kind() {
	case 't', 'f':
		return ""
	case '{':
	default:
		return at + ": a schema is an object or a bool"
	}
	for m := range jsonx.Members(v) {
		if fault := keywordFault(string(m.Name), m.Value, at+"."+string(m.Name)); fault != "" {
			return fault
		}
	}
	return ""
}

func keywordFault(keyword string, v jsonx.Value, at string) string {
	switch keyword {
	case "properties", "patternProperties", "$defs", "dependentSchemas":
		if v.Kind() != '{' {
			return at + ": not an object of schemas"
		}
		for m := range jsonx.Members(v) {
			name := string(m.Name)
			if keyword == "patternProperties" {
				if _, err := regexp.Compile(name); err != nil {
					return at + ": " + err.Error()
				}
			}
			if fault := schemaFault(m.Value, at+"."+name); fault != "" {
				return fault
			}
		}
	case "items", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames",
		"not", "if", "then", "else":
		return schemaFault(v, at)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		if v.Kind() != '[' {
			return at + ": not an array of schemas"
		}
		n := 0
		for e := range jsonx.Elements(v) {
			if fault := schemaFault(e, at+"["+strconv.Itoa(n)+"]"); fault != "" {
				return fault
			}
			n++
		}
	default:
		if fault := valueFault(keyword, v); fault != "" {
			return at + ": " + fault
		}
	}
	return ""
}

// valueFault judges keywords that hold no schema.
func valueFault(keyword string, v jsonx.Value) string {
	switch keyword {
	case "type":
		return typeFault(v)
	case "pattern":
		s, ok := jsonx.StringOf(v)
		if !ok {
			return "not a string"
		}
		if _, err := regexp.Compile(s); err != nil {
			return err.Error()
		}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		if v.Kind() != '0' {
			return "not a number"
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		if n, err := strconv.ParseInt(string(v), 10, 32); err != nil || n < 0 {
			return "not a whole number from 0 on"
		}
	case "enum":
		if v.Kind() != '[' {
			return "not an array"
		}
	case "required":
		if v.Kind() != '[' {
			return "not an array of names"
		}
		for e := range jsonx.Elements(v) {
			if e.Kind() != '"' {
				return "not an array of names"
			}
		}
	case "uniqueItems":
		if k := v.Kind(); k != 't' && k != 'f' {
			return "not a bool"
		}
	case "$ref", "$id", "$schema", "title", "description":
		if v.Kind() != '"' {
			return "not a string"
		}
	}
	return ""
}

func typeFault(v jsonx.Value) string {
	known := func(v jsonx.Value) bool {
		s, _ := jsonx.StringOf(v)
		return slices.Contains([]string{"null", "boolean", "object", "array", "number", "string", "integer"}, s)
	}
	const fault = "not a type of JSON Schema, or an array of them"
	if v.Kind() != '[' {
		if !known(v) {
			return fault
		}
		return ""
	}
	for e := range jsonx.Elements(v) {
		if !known(e) {
			return fault
		}
	}
	return ""
}
