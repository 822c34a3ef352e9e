package builtin

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/schema"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// SchemaConfig says which schemas hold for which tools.
type SchemaConfig struct {
	Tools   []SchemaRule `json:"tools,omitempty"   jsonschema:"schemas of some tools; the first that matches holds, before what the server lists"`
	Listed  string       `json:"listed,omitzero"   jsonschema:"inputSchema and outputSchema as the server last listed them: check (default) or ignore"`
	Unknown string       `json:"unknown,omitzero"  jsonschema:"arguments of a tool of which no schema is known: allow (default) or deny"`
}

// SchemaRule has the schemas of some tools.
type SchemaRule struct {
	Names     []string    `json:"names"               jsonschema:"names of tools, with * for any run of characters"`
	Arguments jsonx.Value `json:"arguments,omitempty" jsonschema:"JSON Schema of the arguments"`
	Result    jsonx.Value `json:"result,omitempty"    jsonschema:"JSON Schema of structuredContent"`
}

// toolSchemas are the schemas of a tool; nil where there is none.
type toolSchemas struct{ arguments, result *schema.Schema }

type schemaRules struct {
	names   [][]string
	schemas []toolSchemas
	listed  bool
	deny    bool // what is unknown
}

func schemaValidator() kind {
	return kind{interceptor.Descriptor{
		Name:        Namespace + "schema-validator",
		Description: "Blocks tool calls and results that do not match the configured or the listed JSON Schema",
		Hooks:       append(interceptor.OnRequest("tools/call"), interceptor.OnResponse("tools/call", "tools/list")...),
		ConfigSchema: schemaFor[SchemaConfig](func(s *jsonschema.Schema) {
			enum(s.Properties["listed"], "check", "ignore")
			enum(s.Properties["unknown"], "allow", "deny")
			rule := s.Properties["tools"].Items
			for _, name := range []string{"arguments", "result"} {
				old := rule.Properties[name]
				rule.Properties[name] = &jsonschema.Schema{Type: "object", Description: old.Description}
			}
		}),
	}, func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		all, err := newSettings(o.Config, buildSchemas)
		known := &listedSchemas{servers: map[string]map[string]toolSchemas{}}
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			rules, err := all.of(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			return rules.judge(call, known)
		}), err
	}}
}

func buildSchemas(c *SchemaConfig) (*schemaRules, error) {
	if err := errors.Join(oneOf("listed", c.Listed, "check", "ignore"), oneOf("unknown", c.Unknown, "allow", "deny")); err != nil {
		return nil, err
	}
	rules := &schemaRules{listed: c.Listed != "ignore", deny: c.Unknown == "deny"}
	for i, r := range c.Tools {
		if len(r.Names) == 0 {
			return nil, fmt.Errorf("%w: tools[%d].names: is empty", ErrConfig, i)
		}
		var made toolSchemas
		for _, part := range []struct {
			key  string
			text jsonx.Value
			into **schema.Schema
		}{{"arguments", r.Arguments, &made.arguments}, {"result", r.Result, &made.result}} {
			if part.text == nil {
				continue
			}
			resolved, err := schema.Compile(part.text, nil)
			if err != nil {
				return nil, fmt.Errorf("%w: tools[%d].%s: %w", ErrConfig, i, part.key, err)
			}
			*part.into = resolved
		}
		rules.names, rules.schemas = append(rules.names, r.Names), append(rules.schemas, made)
	}
	return rules, nil
}

func (r *schemaRules) judge(call *interceptor.Call, known *listedSchemas) (interceptor.Verdict, error) {
	caller, err := call.Caller()
	if err != nil {
		return interceptor.Verdict{}, err
	}
	if call.Event == "tools/list" {
		return known.learn(caller.Server, call.Payload), nil
	}
	tool, err := targetOf(call)
	if err != nil {
		return interceptor.Verdict{}, err
	}
	held, found := r.of(caller.Server, tool, known)
	if call.Phase == schemas.PhaseRequest {
		if held.arguments == nil && !found && r.deny {
			return interceptor.Deny("no schema of this tool is known: list the tools first, or configure one"), nil
		}
		arguments, ok := wire.Member(call.Payload, "arguments")
		if !ok {
			arguments = jsonx.Value("{}")
		}
		return check(held.arguments, "arguments", arguments), nil
	}
	// An error says in words what it is; outputSchema is of results.
	if failed, _ := wire.Member(call.Payload, "isError"); string(failed) == "true" || tool == "" {
		return interceptor.Pass(), nil
	}
	content, ok := wire.Member(call.Payload, "structuredContent")
	if !ok {
		if held.result != nil {
			return interceptor.Deny("the tool has a schema for its result, and answered without structuredContent"), nil
		}
		return interceptor.Pass(), nil
	}
	return check(held.result, "structuredContent", content), nil
}

// of finds the schemas of a tool: the configured ones, and where they say nothing the listed ones.
func (r *schemaRules) of(server, tool string, known *listedSchemas) (s toolSchemas, found bool) {
	for i := range r.names {
		if anyGlob(r.names[i], tool) {
			s, found = r.schemas[i], true
			break
		}
	}
	if !r.listed {
		return s, found
	}
	listed, ok := known.of(server, tool)
	if s.arguments == nil {
		s.arguments = listed.arguments
	}
	if s.result == nil {
		s.result = listed.result
	}
	return s, found || ok
}

func check(s *schema.Schema, what string, value jsonx.Value) interceptor.Verdict {
	if s == nil {
		return interceptor.Pass()
	}
	var instance any
	if err := jsonx.Unmarshal(value, &instance); err != nil {
		return interceptor.Deny(what + " are not JSON")
	}
	err := s.Validate(instance)
	if err == nil {
		return interceptor.Pass()
	}
	fault := what + " does not match the schema" + faultOf(err)
	if errors.Is(err, schema.ErrTooDeep) {
		fault = what + " are " + err.Error()
	}
	v := interceptor.Deny(fault)
	v.Messages[0].Path = what
	return v
}

// faultRE finds the place in the schema and the keyword in the library's errors, which go on with values.
var faultRE = regexp.MustCompile(`validating (/[^:]*|root|https?://\S+): `)

var keywordRE = regexp.MustCompile(`^([a-zA-Z$]{2,24}):`)

// faultOf tells where in the schema the fault is, without any value of the payload.
func faultOf(err error) string {
	text := err.Error()
	places := faultRE.FindAllStringSubmatchIndex(text, -1)
	if len(places) == 0 {
		return ""
	}
	last := places[0] // of a chain, up to where values may begin
	for _, p := range places[1:] {
		if p[0] != last[1] {
			break
		}
		last = p
	}
	fault := " at " + text[last[2]:last[3]]
	if m := keywordRE.FindStringSubmatch(text[last[1]:]); m != nil {
		fault += " (" + m[1] + ")"
	}
	if len(fault) > maxPlace {
		fault = fault[:maxPlace]
	}
	return fault
}

// listedSchemas remembers what servers listed.
type listedSchemas struct {
	mu      sync.RWMutex // covers the rest
	servers map[string]map[string]toolSchemas
	count   int
}

func (l *listedSchemas) of(server, tool string) (toolSchemas, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s, ok := l.servers[server][tool]
	return s, ok
}

// learn takes the schemas of a page over. What cannot be read, or is too much, is told and not checked.
func (l *listedSchemas) learn(server string, page jsonx.Value) interceptor.Verdict {
	listed, ok := wire.Member(page, "tools")
	if !ok || listed.Kind() != '[' {
		return interceptor.Pass()
	}
	var bad []interceptor.Message
	i := -1
	for tool := range jsonx.Elements(listed) {
		i++
		var made toolSchemas
		for _, part := range []struct {
			name string
			into **schema.Schema
		}{{"inputSchema", &made.arguments}, {"outputSchema", &made.result}} {
			text, ok := wire.Member(tool, part.name)
			if !ok || text.Kind() != '{' {
				continue
			}
			resolved, err := schema.Compile(text, nil)
			if err != nil {
				bad = append(bad, interceptor.Message{
					Path: fmt.Sprintf("tools.%d.%s", i, part.name), Message: "cannot be used as a schema, and is not checked",
				})
				continue
			}
			*part.into = resolved
		}
		l.put(server, toolOf(tool), made)
	}
	if len(bad) == 0 {
		return interceptor.Pass()
	}
	return interceptor.Verdict{Severity: schemas.SeverityWarn, Messages: slices.Clip(bad[:min(len(bad), maxMessages)])}
}

func (l *listedSchemas) put(server, tool string, s toolSchemas) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.servers[server]
	if of == nil {
		of = map[string]toolSchemas{}
		l.servers[server] = of
	}
	if _, known := of[tool]; !known {
		if l.count >= toolsKnown {
			return
		}
		l.count++
	}
	of[tool] = s
}
