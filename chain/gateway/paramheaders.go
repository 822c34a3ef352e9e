package gateway

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// From protocol 2026-07-28 on a tool can have arguments repeated in headers, by an annotation in its
// inputSchema (streamable HTTP, "Custom Headers from Tool Parameters"). A server refuses a call whose
// headers differ from its body, so they follow a mutation, and are made where the client is on stdio.

const (
	annotation       = "x-mcp-header"
	maxAnnotated     = 1_000 // tools with annotations, for each backend
	maxBindings      = 64    // of a tool
	maxSchemaNesting = 16
)

// binding is one annotated argument.
type binding struct {
	path   []string // names from the arguments down
	header string   // canonical, with its prefix
}

// bindingTable holds the annotations of the tools that a backend listed.
type bindingTable struct {
	mu    sync.RWMutex // guards tools
	tools map[string][]binding
}

func newBindingTable() *bindingTable { return &bindingTable{tools: make(map[string][]binding)} }

func (t *bindingTable) of(tool string) []binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.tools[tool]
}

// learn takes the annotations from a result of tools/list, as the server sent it.
func (t *bindingTable) learn(result jsonx.Value) {
	tools, _ := jsonx.Lookup(result, "tools")
	for tool := range jsonx.Elements(tools) {
		name, ok := wire.MemberString(tool, "name")
		if !ok {
			continue
		}
		schema, _ := jsonx.Lookup(tool, "inputSchema")
		found := bindingsOf(nil, schema, nil)
		t.mu.Lock()
		if _, known := t.tools[name]; len(found) > 0 && (known || len(t.tools) < maxAnnotated) {
			t.tools[name] = found
		} else {
			delete(t.tools, name)
		}
		t.mu.Unlock()
	}
}

// bindingsOf follows properties only: an annotation elsewhere is not valid.
func bindingsOf(found []binding, schema jsonx.Value, path []string) []binding {
	properties, _ := jsonx.Lookup(schema, "properties")
	if len(path) >= maxSchemaNesting {
		return found
	}
	for p := range jsonx.Members(properties) {
		if len(found) >= maxBindings {
			break
		}
		at := slices.Concat(path, []string{string(p.Name)})
		if header, ok := wire.MemberString(p.Value, annotation); ok && isToken(header) {
			found = append(found, binding{path: at, header: http.CanonicalHeaderKey(wire.HeaderParamPrefix + header)})
		}
		found = bindingsOf(found, p.Value, at)
	}
	return found
}

// isToken reports whether s may be part of a header's name (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// mirror sets the headers of annotated arguments of a call. It reports whether the tool has any.
func (t *bindingTable) mirror(h http.Header, params jsonx.Value) bool {
	tool, _ := wire.MemberString(params, "name")
	bound := t.of(tool)
	for _, b := range bound {
		value, ok := jsonx.Lookup(params, "arguments")
		for _, name := range b.path {
			if ok {
				value, ok = jsonx.Lookup(value, name)
			}
		}
		if text, due := headerForm(value); ok && due {
			h[b.header] = []string{wire.EncodeHeader(text)}
		} else {
			delete(h, b.header)
		}
	}
	return len(bound) > 0
}

// headerForm is an argument as a header repeats it; due is false for what no header repeats.
func headerForm(v jsonx.Value) (text string, due bool) {
	if s, ok := jsonx.StringOf(v); ok {
		return s, true
	}
	switch {
	case len(v) == 0, v[0] == '{', v[0] == '[', string(v) == "null":
		return "", false
	}
	// IDKey writes whole numbers plainly: 42.0 is 42.
	return wire.IDKey(v), true
}

// rewriteHeaders makes the headers that repeat parts of the body follow a mutation: Mcp-Name, and
// Mcp-Param-* by the annotations of the tool. Where the server never listed the tool, a header follows
// the argument that it seems to repeat.
func (l *lane) rewriteHeaders(h http.Header, before, after *wire.Message) {
	if h.Get(wire.HeaderName) != "" {
		if name, ok := wire.TargetName(after.Method, after.Params); ok {
			h.Set(wire.HeaderName, wire.EncodeHeader(name))
		}
	}
	if after.Method != methodToolsCall || h.Get(wire.HeaderMethod) == "" {
		return
	}
	old, _ := wire.MemberString(before.Params, "name")
	now, _ := wire.MemberString(after.Params, "name")
	if old != now {
		for _, b := range l.bound.of(old) {
			delete(h, b.header)
		}
	}
	if !l.bound.mirror(h, after.Params) {
		guessHeaders(h, before.Params, after.Params)
	}
}

// guessHeaders follows arguments by name or by value.
func guessHeaders(h http.Header, before, after jsonx.Value) {
	var old, now map[string]jsonx.Value
	for name := range h {
		if !strings.HasPrefix(name, wire.HeaderParamPrefix) {
			continue
		}
		if old == nil {
			old, now = arguments(before), arguments(after)
		}
		argument := repeated(name, h.Get(name), old)
		if argument == "" {
			continue // not ours to guess: the backend refuses a header that differs (-32020)
		}
		if text, due := headerForm(now[argument]); due {
			h[name] = []string{wire.EncodeHeader(text)}
		} else {
			delete(h, name)
		}
	}
}

// repeated finds the argument that a Mcp-Param header repeats: the one of its name, else the only one
// with its value.
func repeated(header, value string, args map[string]jsonx.Value) string {
	value, ok := wire.DecodeHeader(value)
	if !ok {
		return ""
	}
	want := strings.TrimPrefix(header, wire.HeaderParamPrefix)
	found, many := "", false
	for name, v := range args {
		if text, due := headerForm(v); !due || text != value {
			continue
		}
		if strings.EqualFold(name, want) {
			return name
		}
		many = many || found != ""
		found = name
	}
	if many {
		return ""
	}
	return found
}

func arguments(params jsonx.Value) map[string]jsonx.Value {
	out := make(map[string]jsonx.Value)
	args, _ := wire.Member(params, "arguments")
	for m := range jsonx.Members(args) {
		out[string(m.Name)] = m.Value
	}
	return out
}
