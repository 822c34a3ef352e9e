package interceptor

import (
	"context"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// ValidatorBool makes a validator of a handler whose bool is the verdict: false denies.
func ValidatorBool(d Descriptor, f func(ctx context.Context, call *Call) (bool, error)) Interceptor {
	return Validator(d, func(ctx context.Context, call *Call) (Verdict, error) {
		ok, err := f(ctx, call)
		if err != nil || !ok {
			return Deny("denied by " + call.Name), err
		}
		return Pass(), nil
	})
}

// TypedValidator decodes the payload into P before the handler sees it.
func TypedValidator[P any](d Descriptor, f func(ctx context.Context, call *Call, payload *P) (Verdict, error)) Interceptor {
	return Validator(d, func(ctx context.Context, call *Call) (Verdict, error) {
		var payload P
		if err := call.Decode(&payload); err != nil {
			return Verdict{}, err
		}
		return f(ctx, call, &payload)
	})
}

// TypedMutator decodes the payload into P and encodes it again if the handler says that it changed
// it. Members that P has no place for are lost then: give P an embedded fallback for them
// (map[string]jsonx.Value with the tag `json:",embed"`), or use [Mutator].
func TypedMutator[P any](d Descriptor, f func(ctx context.Context, call *Call, payload *P) (modified bool, err error)) Interceptor {
	return Mutator(d, func(ctx context.Context, call *Call) (Mutation, error) {
		var payload P
		if err := call.Decode(&payload); err != nil {
			return Mutation{}, err
		}
		modified, err := f(ctx, call, &payload)
		if err != nil || !modified {
			return Mutation{}, err
		}
		out, err := jsonx.Marshal(&payload)
		return Modified(out), err
	})
}

// TypedSink decodes the payload into P before the handler sees it.
func TypedSink[P any](d Descriptor, f func(ctx context.Context, call *Call, payload *P) (Receipt, error)) Interceptor {
	return Sink(d, func(ctx context.Context, call *Call) (Receipt, error) {
		var payload P
		if err := call.Decode(&payload); err != nil {
			return Receipt{}, err
		}
		return f(ctx, call, &payload)
	})
}

// ConfiguredValidator is [TypedValidator] with the config decoded into C too. A descriptor without a ConfigSchema gets
// the one that [jsonschema.For] infers from C: fields without omitempty or omitzero are required there, and members
// that C has no field for are refused. To get the payload raw, let P be [jsonx.Value].
func ConfiguredValidator[P, C any](d Descriptor, f func(ctx context.Context, call *Call, payload *P, config *C) (Verdict, error)) Interceptor {
	return withSchemaOf[C](d, func(d Descriptor) Interceptor {
		return TypedValidator(d, func(ctx context.Context, call *Call, payload *P) (Verdict, error) {
			var config C
			if err := call.DecodeConfig(&config); err != nil {
				return Verdict{}, err
			}
			return f(ctx, call, payload, &config)
		})
	})
}

// ConfiguredMutator is [TypedMutator] with a config, as [ConfiguredValidator] has it.
func ConfiguredMutator[P, C any](d Descriptor, f func(ctx context.Context, call *Call, payload *P, config *C) (modified bool, err error)) Interceptor {
	return withSchemaOf[C](d, func(d Descriptor) Interceptor {
		return TypedMutator(d, func(ctx context.Context, call *Call, payload *P) (bool, error) {
			var config C
			if err := call.DecodeConfig(&config); err != nil {
				return false, err
			}
			return f(ctx, call, payload, &config)
		})
	})
}

// ConfiguredSink is [TypedSink] with a config, as [ConfiguredValidator] has it.
func ConfiguredSink[P, C any](d Descriptor, f func(ctx context.Context, call *Call, payload *P, config *C) (Receipt, error)) Interceptor {
	return withSchemaOf[C](d, func(d Descriptor) Interceptor {
		return TypedSink(d, func(ctx context.Context, call *Call, payload *P) (Receipt, error) {
			var config C
			if err := call.DecodeConfig(&config); err != nil {
				return Receipt{}, err
			}
			return f(ctx, call, payload, &config)
		})
	})
}

// withSchemaOf gives the descriptor a config schema if it has none.
func withSchemaOf[C any](d Descriptor, build func(Descriptor) Interceptor) Interceptor {
	var fault error
	if d.ConfigSchema == nil {
		schema, err := jsonschema.For[C](nil)
		if err == nil {
			d.ConfigSchema, err = jsonx.Marshal(schema)
		}
		if err != nil {
			fault = fmt.Errorf("infer configSchema: %w", err)
		}
	}
	i := build(d)
	i.fault = fault
	return i
}
