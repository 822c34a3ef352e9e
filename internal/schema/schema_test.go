package schema_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/internal/schema"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// What comes from a server may be meant to end or stall the process that checks against it.
func TestHarmfulSchemasAreRefused(t *testing.T) {
	t.Parallel()
	var doubling strings.Builder
	doubling.WriteString(`{"$defs":{"d0":{"type":"object"}`)
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&doubling, `,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	doubling.WriteString(`},"$ref":"#/$defs/d39"}`)
	for _, c := range []struct{ name, schema, want string }{
		{"self", `{"$ref":"#"}`, "it refers to itself without end"},
		{"round about", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}`, "it refers to itself without end"},
		{"unused part", `{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, "it refers to itself without end"},
		{"doubling", doubling.String(), "it is too costly"},
		{"of content", `{"contentSchema":{"$ref":"#/contentSchema","default":1}}`, "it refers to itself without end"},
		{"nested", strings.Repeat(`{"not":`, 300) + "{}" + strings.Repeat("}", 300), "more than 200 levels"},
		{"twice", `{"$ref":"#/$defs/a","$ref":"#"}`, "duplicate"},
		{"elsewhere", `{"$ref":"https://example.org/x"}`, "only references within the document"},
		{"nowhere", `{"$ref":"#/$defs/x"}`, "does not lead to a schema"},
		{"dynamic", `{"$dynamicRef":"#x"}`, "is not supported"},
		{"inner id", `{"properties":{"a":{"$id":"x","type":"string"}}}`, "$id within a schema"},
	} {
		_, err := schema.Compile(jsonx.Value(c.schema), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := schema.Compile(jsonx.Value(`{"maximum":18446744073709551615}`), nil); err != nil {
		t.Error(err)
	}
	// A tree is fine; one that doubles at each level is fine as long as values are flat.
	tree, err := schema.Compile(jsonx.Value(`{"type":"object","properties":{"l":{"$ref":"#"},"r":{"$ref":"#"}}}`), nil)
	if err != nil || tree.Validate(decode(t, nested("l", 60))) != nil {
		t.Errorf("a tree gives %+v, %v", tree, err)
	}
	double, err := schema.Compile(jsonx.Value(`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`), nil)
	if err != nil {
		t.Fatalf("doubling with depth gives %+v, %v", double, err)
	}
	if err := double.Validate(decode(t, nested("a", 3))); err != nil {
		t.Errorf("a flat value: %v", err)
	}
	if err := double.Validate(decode(t, nested("a", 13))); !errors.Is(err, schema.ErrTooDeep) {
		t.Errorf("a deep value gives %v", err)
	}
}

func nested(name string, levels int) string {
	return strings.Repeat(`{"`+name+`":`, levels) + "{}" + strings.Repeat("}", levels)
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if err := jsonx.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Defaults are checked while a schema is compiled, so they have its bounds too.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"good", `{"properties":{"a":{"type":"integer","default":1}}}`, ""},
		{"bad", `{"properties":{"a":{"type":"integer","default":"x"}}}`, "resolve schema"},
		{"deep", `{"properties":{"a":{"default":` + nested("a", 70) + `}}}`, "the default at #/properties/a is nested deeper"},
		{
			"costly", `{"$defs":{"d":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/d"},{"$ref":"#/$defs/d"}]}},"default":` + nested("a", 40) + `}}}`,
			"the default at #/$defs/d is too costly",
		},
	} {
		_, err := schema.Compile(jsonx.Value(c.text), &schema.Options{Defaults: true})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// The library takes a member for a keyword whatever its case; the guard would not see it.
func TestOtherSpellingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"$REF":"#"}`, `{"AllOf":[{"$ref":"#"}]}`, `{"Items":{"$ref":"#"}}`, "{\"itemſ\":{\"$ref\":\"#\"}}"} {
		if _, err := schema.Compile(jsonx.Value(text), nil); err == nil || !strings.Contains(err.Error(), "is no keyword: write") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if _, err := schema.Compile(jsonx.Value(`{"properties":{"Items":true,"$REF":true},"x-note":1}`), nil); err != nil {
		t.Error(err)
	}
}

// Whatever the library has a field for, the guard knows how to spell.
func TestKeywordsAreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[jsonschema.Schema]()
	fields := 0
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields++
		if _, err := schema.Compile(jsonx.Value(`{"`+strings.ToUpper(name)+`":1}`), nil); err == nil || !strings.Contains(err.Error(), "write "+name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if fields < 30 {
		t.Errorf("%d fields were read: the walk is broken", fields)
	}
}

// BenchmarkCompile has a schema of the largest size that makes the guard work: a chain of references, whose counts change
// at each level. Most of the time is the library's own.
func BenchmarkCompile(b *testing.B) {
	var long strings.Builder
	long.WriteString(`{"$defs":{"end":{}`)
	n := 0
	for ; long.Len() < schema.MaxSize-100; n++ {
		fmt.Fprintf(&long, `,"%d":{"items":{"$ref":"#/$defs/%d"}}`, n, n+1)
	}
	fmt.Fprintf(&long, `,"%d":{}},"$ref":"#/$defs/0"}`, n)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.Compile(jsonx.Value(long.String()), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":1}}`)
	f.Add(`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"items":{"$ref":"#"}}}}`, `[[[]]]`)
	f.Add(`{"dependentSchemas":{"a":{"$ref":"#"}}}`, `{"a":1}`)
	f.Add(`{"patternProperties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"if":true,"then":{"$ref":"#/$defs/x"}}`, `{"ab":{}}`)
	f.Add(`{"AllOf":[{"$Ref":"#"}]}`, `1`)
	f.Add(`{"$defs":{"a":{"default":{"b":[1]},"properties":{"b":{"$ref":"#"}}}}}`, `{}`)
	f.Fuzz(func(_ *testing.T, text, value string) {
		for _, part := range []string{text, value} {
			if traits, err := jsonx.Verify([]byte(part), 200); err != nil || traits != (jsonx.Traits{}) || part == "" {
				return
			}
		}
		var decoded any
		if jsonx.Unmarshal([]byte(value), &decoded) != nil {
			return
		}
		for _, defaults := range []bool{false, true} {
			if s, err := schema.Compile(jsonx.Value(text), &schema.Options{Defaults: defaults}); err == nil {
				_ = s.Validate(decoded) // ends
			}
		}
	})
}
