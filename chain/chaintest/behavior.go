package chaintest

import (
	"context"
	"fmt"
	"strings"

	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Behaviors lists the names that [Behavior] knows.
func Behaviors() []string {
	return []string{
		"allow-all", "deny-all", "require-note", "require-uppercase-note", "uppercase-note", "crash",
		"cross-boundary-guard", "secretless-redactor",
	}
}

// Behavior makes an interceptor with one of the behaviours that the fixtures name.
func Behavior(name string, d interceptor.Descriptor) (interceptor.Interceptor, error) {
	switch name {
	case "allow-all":
		return interceptor.Validator(d, func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
			return interceptor.Pass(), nil
		}), nil
	case "deny-all":
		return interceptor.Validator(d, func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
			return interceptor.Deny("denied by policy"), nil
		}), nil
	case "require-note":
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			if _, ok := note(call); !ok {
				return interceptor.Deny("note is required"), nil
			}
			return interceptor.Pass(), nil
		}), nil
	case "require-uppercase-note":
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			if s, ok := note(call); ok && s != strings.ToUpper(s) {
				return interceptor.Deny("note must be uppercase"), nil
			}
			return interceptor.Pass(), nil
		}), nil
	case "uppercase-note":
		return interceptor.Mutator(d, uppercaseNote), nil
	case "crash":
		return interceptor.Validator(d, func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
			panic("crash")
		}), nil
	case "cross-boundary-guard":
		return bind(builtin.Namespace+"leak-guard", d)
	case "secretless-redactor":
		return bind(builtin.Namespace+"secret-redactor", d)
	}
	return interceptor.Interceptor{}, fmt.Errorf("unknown behaviour %q", name)
}

// bind takes the behaviour of a built-in under the descriptor of a fixture.
func bind(name string, d interceptor.Descriptor) (interceptor.Interceptor, error) {
	made, err := builtin.New(name, nil)
	d.Type = made.Descriptor.Type
	made.Descriptor = d
	return made, err
}

// note reads arguments.note.
func note(call *interceptor.Call) (string, bool) {
	arguments, _ := wire.Member(call.Payload, "arguments")
	return wire.MemberString(arguments, "note")
}

func uppercaseNote(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
	s, ok := note(call)
	if !ok || s == strings.ToUpper(s) {
		return interceptor.Unmodified(), nil
	}
	upper, err := jsonx.Marshal(strings.ToUpper(s))
	if err != nil {
		return interceptor.Mutation{}, err
	}
	arguments, _ := wire.Member(call.Payload, "arguments")
	arguments = wire.WithMember(arguments, "note", upper)
	return interceptor.Mutation{Modified: true, Payload: wire.WithMember(call.Payload, "arguments", arguments)}, nil
}
