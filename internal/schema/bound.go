package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	maxLooks = 1000 // at one place of a value
	maxLevel = 64   // of values that are checked
)

// node is a schema or subschema.
type node struct {
	id       int     // its place in graph.order
	at       string  // JSON pointer
	ref      string  // where $ref leads; empty: nowhere
	fallback int     // levels of the default, -1 without one
	here     []*node // schemas for the same value
	// below are schemas for the values in it; those of one group are for different ones.
	below [][]*node
}

// bound returns how deep values may be nested that the schema is used for; also that deep are its defaults.
func bound(document any) (int, error) {
	g := &graph{nodes: map[string]*node{}}
	root, err := g.add("", document)
	if err != nil {
		return 0, err
	}
	for _, n := range g.order {
		if n.ref == "" {
			continue
		}
		target := g.nodes[strings.TrimPrefix(n.ref, "#")]
		if target == nil {
			return 0, fmt.Errorf("$ref %q does not lead to a schema in this document", n.ref)
		}
		n.here = append(n.here, target)
	}
	depth := maxLevel - 1
	var looks, above []int // by node: those at so many levels below, and at one level less
	for level := range maxLevel {
		looks = slices.Grow(looks[:0], len(g.order))[:len(g.order)]
		for i := range looks {
			looks[i] = unknown
		}
		n, err := count(root, looks, above)
		if err != nil {
			return 0, err
		}
		if n > maxLooks && depth >= level {
			if level == 0 {
				return 0, errors.New("it is too costly")
			}
			depth = level - 1
		}
		for _, node := range g.order { // also those that only deeper values reach
			n, err := count(node, looks, above)
			if err != nil {
				return 0, err
			}
			if n > maxLooks && node.fallback >= level {
				return 0, fmt.Errorf("the default at #%s is too costly to check", node.at)
			}
		}
		if slices.Equal(looks, above) || depth < level && !g.defaults {
			break // the same for every level from here on, or nothing asks for more
		}
		looks, above = above, looks
	}
	return depth, nil
}

const (
	unknown  = -2
	counting = -1
)

// count returns how often a place is looked at, so many levels below a value that n is for; deeper has the
// counts of one level less, nil at the value itself.
func count(n *node, looks, deeper []int) (int, error) {
	switch known := looks[n.id]; known {
	case counting:
		return 0, errors.New("it refers to itself without end")
	case unknown:
	default:
		return known, nil
	}
	looks[n.id] = counting
	sum := 0
	if deeper == nil {
		sum = 1
	} else {
		for _, group := range n.below {
			most := 0
			for _, child := range group {
				most = max(most, deeper[child.id])
			}
			sum += most
		}
	}
	for _, child := range n.here {
		more, err := count(child, looks, deeper)
		if err != nil {
			return 0, err
		}
		sum += more
	}
	sum = min(sum, maxLooks+1)
	looks[n.id] = sum
	return sum, nil
}

type graph struct {
	nodes    map[string]*node // by JSON pointer
	order    []*node
	defaults bool // some node has one
}

// add enters a schema with all below it. Only references by JSON pointer are understood.
func (g *graph) add(at string, v any) (*node, error) {
	n := &node{id: len(g.order), at: at, fallback: -1}
	g.nodes[at], g.order = n, append(g.order, n)
	members, ok := v.(map[string]any)
	if !ok {
		return n, nil // true, false, or what the library refuses
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, path := members[name], at+"/"+name
		if keyword := misspelled(name); keyword != "" {
			return nil, fmt.Errorf("%q at #%s is no keyword: write %s", name, at, keyword)
		}
		var err error
		switch name {
		case "default":
			g.defaults = true
			if n.fallback = depthOf(value, maxLevel); n.fallback == maxLevel {
				err = fmt.Errorf("the default at #%s is nested deeper than %d levels", at, maxLevel-1)
			}
		case "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor":
			err = fmt.Errorf("%s is not supported", name)
		case "$id", "id":
			if _, isText := value.(string); isText && at != "" {
				err = errors.New("$id within a schema is not supported")
			}
		case "$ref":
			n.ref, _ = value.(string)
			if n.ref != "#" && !strings.HasPrefix(n.ref, "#/") || strings.Contains(n.ref, "%") {
				err = fmt.Errorf("$ref %q: only references within the document, as #/$defs/name, are followed", n.ref)
			}
		case "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies":
			err = g.children(path, value, &n.here)
		case "properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties",
			"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems":
			var group []*node
			err = g.children(path, value, &group)
			if name == "patternProperties" { // several may match one name
				for _, child := range group {
					n.below = append(n.below, []*node{child})
				}
			} else {
				n.below = append(n.below, group)
			}
		case "$defs", "definitions", "contentSchema":
			var unused []*node
			err = g.children(path, value, &unused)
		}
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

// misspelled returns the keyword that a name stands for in the library, which does not tell cases apart: what the guard
// took for an unknown member could be a reference there.
func misspelled(name string) string {
	keywords := [...]string{
		"$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "$vocabulary", "additionalItems",
		"additionalProperties", "allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType", "contentSchema",
		"default", "definitions", "dependencies", "dependentRequired", "dependentSchemas", "deprecated", "description", "else",
		"enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "if", "items", "maxContains", "maxItems",
		"maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
		"not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "readOnly", "required",
		"then", "title", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly",
	}
	if slices.Contains(keywords[:], name) {
		return ""
	}
	for _, keyword := range keywords {
		if strings.EqualFold(name, keyword) {
			return keyword
		}
	}
	return ""
}

// children enters a schema, a list of them, or schemas by name.
func (g *graph) children(at string, v any, into *[]*node) error {
	enter := func(at string, v any) error {
		child, err := g.add(at, v)
		*into = append(*into, child)
		return err
	}
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			if err := enter(at+"/"+strconv.Itoa(i), one); err != nil {
				return err
			}
		}
	case map[string]any:
		last := at[strings.LastIndexByte(at, '/')+1:]
		switch last {
		case "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
			for _, name := range slices.Sorted(maps.Keys(v)) {
				escaped := strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
				if err := enter(at+"/"+escaped, v[name]); err != nil {
					return err
				}
			}
		default:
			return enter(at, v)
		}
	default:
		return enter(at, v)
	}
	return nil
}

// depthOf is how deep a decoded value is nested, up to a limit.
func depthOf(v any, limit int) int {
	if limit <= 0 {
		return 0
	}
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			deepest = max(deepest, 1+depthOf(member, limit-1))
		}
	case []any:
		for _, element := range v {
			deepest = max(deepest, 1+depthOf(element, limit-1))
		}
	}
	return deepest
}
