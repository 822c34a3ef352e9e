package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// PolicyConfig is a list of rules in CEL, of which the first that holds decides.
type PolicyConfig struct {
	Rules   []PolicyRule `json:"rules,omitempty"    jsonschema:"the first whose expression is true decides"`
	Default string       `json:"default,omitzero"   jsonschema:"requests that no rule decides: allow (default) or deny; results pass"`
	OnError string       `json:"on_error,omitzero"  jsonschema:"a rule that cannot be evaluated, as for a missing member: deny (default) or skip"`
	MaxCost uint64       `json:"max_cost,omitzero"  jsonschema:"CEL cost of one evaluation, about one for each operation or 10 bytes compared; default 100000"`
}

// PolicyRule is one of them.
type PolicyRule struct {
	Name    string `json:"name,omitzero"    jsonschema:"told in messages; default: its number"`
	When    string `json:"when"             jsonschema:"CEL expression of type bool over event, phase, payload, tool, arguments, principal, session, server, trace"`
	Action  string `json:"action"           jsonschema:"allow, deny or warn"`
	Message string `json:"message,omitzero" jsonschema:"told to the caller of a denied request"`
	Phase   string `json:"phase,omitzero"   jsonschema:"what it is about: request (default), response or both"`
}

// Bounds of a policy.
const (
	defaultMaxCost = 100_000
	maxRules       = 1000
	maxExpression  = 16 << 10
)

func celPolicy() kind {
	return kind{interceptor.Descriptor{
		Name: Namespace + "policy", Description: "Allows and denies by rules in CEL", Hooks: interceptor.Both("*"),
		ConfigSchema: schemaFor[PolicyConfig](func(s *jsonschema.Schema) {
			enum(s.Properties["default"], "allow", "deny")
			enum(s.Properties["on_error"], "deny", "skip")
			rule := s.Properties["rules"].Items
			enum(rule.Properties["action"], "allow", "deny", "warn")
			enum(rule.Properties["phase"], "request", "response", "both")
		}),
	}, func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		env, err := celEnv()
		if err != nil {
			return interceptor.Interceptor{}, err
		}
		all, err := newSettings(o.Config, func(c *PolicyConfig) (*policy, error) { return buildPolicy(env, c) })
		return interceptor.Validator(d, func(ctx context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			p, err := all.of(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			return p.judge(ctx, call)
		}), err
	}}
}

// celEnv declares the variables of rules. Numbers of the payload are doubles, as in JSON.
func celEnv() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("event", cel.StringType),
		cel.Variable("phase", cel.StringType),
		cel.Variable("payload", cel.DynType),
		cel.Variable("tool", cel.StringType),
		cel.Variable("arguments", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("principal", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("session", cel.StringType),
		cel.Variable("server", cel.StringType),
		cel.Variable("trace", cel.StringType),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(100),
		ext.Strings(), ext.Sets(),
	)
}

// policy is a configuration, compiled.
type policy struct {
	rules   []compiledRule
	allow   bool // requests that no rule decides
	skipBad bool
}

type compiledRule struct {
	name, action, message, phase string
	program                      cel.Program
}

func buildPolicy(env *cel.Env, c *PolicyConfig) (*policy, error) {
	if err := errors.Join(oneOf("default", c.Default, "allow", "deny"), oneOf("on_error", c.OnError, "deny", "skip")); err != nil {
		return nil, err
	}
	if len(c.Rules) > maxRules {
		return nil, fmt.Errorf("%w: rules: %d are too many; %d are allowed", ErrConfig, len(c.Rules), maxRules)
	}
	if c.MaxCost == 0 {
		c.MaxCost = defaultMaxCost
	}
	p := &policy{allow: c.Default != "deny", skipBad: c.OnError == "skip"}
	for i, r := range c.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		if r.Action == "" {
			return nil, fmt.Errorf("%w: %s.action: is missing; write allow, deny or warn", ErrConfig, at)
		}
		if err := oneOf(at+".action", r.Action, "allow", "deny", "warn"); err != nil {
			return nil, err
		}
		if err := oneOf(at+".phase", r.Phase, "request", "response", "both"); err != nil {
			return nil, err
		}
		program, err := compileRule(env, at+".when", r.When, c.MaxCost)
		if err != nil {
			return nil, err
		}
		if r.Name == "" {
			r.Name = at
		}
		p.rules = append(p.rules, compiledRule{r.Name, r.Action, r.Message, cmp.Or(r.Phase, string(schemas.PhaseRequest)), program})
	}
	return p, nil
}

// compileRule tells line and column of each fault.
func compileRule(env *cel.Env, at, text string, maxCost uint64) (cel.Program, error) {
	ast, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		var faults []string
		for _, e := range issues.Errors() {
			faults = append(faults, fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
		}
		return nil, fmt.Errorf("%w: %s: %s", ErrConfig, at, strings.Join(faults, "; "))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%w: %s: is of type %s; it must be bool", ErrConfig, at, t)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(100), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, at, err)
	}
	return program, nil
}

func (p *policy) judge(ctx context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
	if len(p.rules) > 0 {
		variables, err := celVariables(call)
		if err != nil {
			return interceptor.Verdict{}, err
		}
		for i := range p.rules {
			if phase := p.rules[i].phase; phase != "both" && phase != string(call.Phase) {
				continue
			}
			if v, decided, err := p.rules[i].judge(ctx, variables, p.skipBad); decided || err != nil {
				return v, err
			}
		}
	}
	if p.allow || call.Phase == schemas.PhaseResponse {
		return interceptor.Pass(), nil
	}
	return interceptor.Deny("no rule of the policy allows this"), nil
}

func (r *compiledRule) judge(ctx context.Context, variables map[string]any, skipBad bool) (v interceptor.Verdict, decided bool, err error) {
	out, _, err := r.program.ContextEval(ctx, variables)
	if ctx.Err() != nil {
		return v, false, context.Cause(ctx)
	}
	holds, isBool := false, false
	if err == nil {
		holds, isBool = out.Value().(bool)
	}
	switch {
	case !isBool && skipBad: // its error may hold values of the payload: it is not told
		return v, false, nil
	case !isBool:
		return interceptor.Deny("rule " + r.name + " of the policy cannot be evaluated"), true, nil
	case !holds:
		return v, false, nil
	case r.action == "allow":
		return interceptor.Pass(), true, nil
	}
	message := r.message
	if message == "" {
		message = "rule " + r.name + " of the policy"
	}
	if v = interceptor.Deny(message); r.action == "warn" {
		v.Severity, v.Messages[0].Severity = schemas.SeverityWarn, schemas.SeverityWarn
	}
	return v, true, nil
}

// celVariables are lazy where decoding costs: CEL calls a function when an expression asks for it.
func celVariables(call *interceptor.Call) (map[string]any, error) {
	caller, err := call.Caller()
	if err != nil {
		return nil, err
	}
	target, err := targetOf(call)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"event": call.Event, "phase": string(call.Phase), "tool": target,
		"session": caller.SessionID, "server": caller.Server, "trace": caller.TraceID,
		"payload": func() any { return decoded(call.Payload) },
		"arguments": func() any {
			arguments, _ := wire.Member(call.Payload, "arguments")
			return objectOf(arguments)
		},
		"principal": func() any {
			return map[string]any{"type": caller.Principal.Type, "id": caller.Principal.ID, "claims": objectOf(caller.Principal.Claims)}
		},
	}, nil
}

func decoded(v jsonx.Value) any {
	var out any
	if err := jsonx.Unmarshal(v, &out); err != nil {
		return map[string]any{}
	}
	return out
}

// objectOf decodes an object; anything else counts as an empty one.
func objectOf(v jsonx.Value) map[string]any {
	if object, ok := decoded(v).(map[string]any); ok {
		return object
	}
	return map[string]any{}
}
