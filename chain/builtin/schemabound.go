package builtin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A schema comes from a server that may mean harm, and the library follows it without bounds: a reference
// to itself overflows the stack, which ends the process, and references that double at each level take for
// ever. So how often one place of a value can be looked at is counted before a schema is used.

const (
	maxLooks = 1000 // at one place of a value
	maxLevel = 64   // of values that are checked
)

// schemaNode is a schema or subschema.
type schemaNode struct {
	ref  string        // where $ref leads; empty: nowhere
	here []*schemaNode // schemas for the same value
	// below are schemas for the values in it; those of one group are for different ones.
	below [][]*schemaNode
}

// schemaDepth returns how deep values may be nested that the schema is used for.
func schemaDepth(document any) (int, error) {
	g := &schemaGraph{nodes: map[string]*schemaNode{}}
	root, err := g.add("", document)
	if err != nil {
		return 0, err
	}
	for _, n := range g.nodes {
		if n.ref == "" {
			continue
		}
		target := g.nodes[strings.TrimPrefix(n.ref, "#")]
		if target == nil {
			return 0, fmt.Errorf("$ref %q does not lead to a schema in this document", n.ref)
		}
		n.here = append(n.here, target)
	}
	// looks[level] are those of nodes at that many levels below.
	var above map[*schemaNode]int
	for level := range maxLevel {
		looks := map[*schemaNode]int{}
		n, err := count(root, looks, above)
		if err != nil {
			return 0, err
		}
		if n > maxLooks {
			if level == 0 {
				return 0, errors.New("it is too costly")
			}
			return level - 1, nil
		}
		for _, node := range g.nodes { // also those that only deeper values reach
			if _, err := count(node, looks, above); err != nil {
				return 0, err
			}
		}
		if maps.Equal(looks, above) {
			break // the same for every level from here on
		}
		above = looks
	}
	return maxLevel - 1, nil
}

const counting = -1

// count returns how often a place is looked at, so many levels below a value that n is for; deeper has the
// counts of one level less, nil at the value itself.
func count(n *schemaNode, looks, deeper map[*schemaNode]int) (int, error) {
	if known, ok := looks[n]; ok {
		if known == counting {
			return 0, errors.New("it refers to itself without end")
		}
		return known, nil
	}
	looks[n] = counting
	sum := 0
	if deeper == nil {
		sum = 1
	} else {
		for _, group := range n.below {
			most := 0
			for _, child := range group {
				most = max(most, deeper[child])
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
	looks[n] = sum
	return sum, nil
}

type schemaGraph struct{ nodes map[string]*schemaNode }

// add enters a schema with all below it. Only references by JSON pointer are understood.
func (g *schemaGraph) add(at string, v any) (*schemaNode, error) {
	n := &schemaNode{}
	g.nodes[at] = n
	members, ok := v.(map[string]any)
	if !ok {
		return n, nil // true, false, or what the library refuses
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, path := members[name], at+"/"+name
		var err error
		switch name {
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
			var group []*schemaNode
			err = g.children(path, value, &group)
			if name == "patternProperties" { // several may match one name
				for _, child := range group {
					n.below = append(n.below, []*schemaNode{child})
				}
			} else {
				n.below = append(n.below, group)
			}
		case "$defs", "definitions":
			var unused []*schemaNode
			err = g.children(path, value, &unused)
		}
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

// children enters a schema, a list of them, or schemas by name.
func (g *schemaGraph) children(at string, v any, into *[]*schemaNode) error {
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
