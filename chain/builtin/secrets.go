package builtin

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/detect"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// DetectConfig says what the detector and the redactors look for.
type DetectConfig struct {
	Kinds     []detect.Kind `json:"kinds,omitempty"      jsonschema:"what to look for; empty: all that the interceptor is for"`
	Names     []string      `json:"names,omitempty"      jsonschema:"further names under which every value is a secret"`
	SafeNames []string      `json:"safe_names,omitempty" jsonschema:"names that look like one of a secret and are not"`
}

func detectSchema(kinds []detect.Kind) jsonx.Value {
	return schemaFor[DetectConfig](func(s *jsonschema.Schema) { enum(s.Properties["kinds"].Items, kinds...) })
}

// detector builds what looks for kinds, or for those of them that the configuration names.
func detectors(fallback jsonx.Value, kinds []detect.Kind) (*settings[DetectConfig, *detect.Detector], error) {
	return newSettings(fallback, func(c *DetectConfig) (*detect.Detector, error) {
		wanted := c.Kinds
		if len(wanted) == 0 {
			wanted = kinds
		}
		for _, k := range wanted {
			if !slices.Contains(kinds, k) {
				return nil, fmt.Errorf("%w: kinds: %q is not one of %v", ErrConfig, k, kinds)
			}
		}
		off := slices.DeleteFunc(detect.Kinds(), func(k detect.Kind) bool { return slices.Contains(wanted, k) })
		d, err := detect.New(detect.Config{Names: c.Names, SafeNames: c.SafeNames, Off: off})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		return d, nil
	})
}

func secretDetector() kind {
	return kind{interceptor.Descriptor{
		Name: Namespace + "secret-detector", Description: "Blocks requests that carry a key, a token or a password",
		Hooks: interceptor.OnRequest("*"), ConfigSchema: detectSchema(detect.SecretKinds()),
	}, func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		all, err := detectors(o.Config, detect.SecretKinds())
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			d, err := all.of(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			return found(call.Payload, d.Findings(call.Payload)), nil
		}), err
	}}
}

// found denies with the place and kind of each finding.
func found(payload jsonx.Value, findings []detect.Finding) interceptor.Verdict {
	if len(findings) == 0 {
		return interceptor.Pass()
	}
	v := interceptor.Verdict{Severity: "error"}
	for i, f := range findings {
		if i == maxMessages {
			v.Messages = append(v.Messages, interceptor.Message{Message: fmt.Sprintf("and %d more", len(findings)-i)})
			break
		}
		v.Messages = append(v.Messages, interceptor.Message{Path: placeOf(payload, f.Start), Message: "carries a secret: " + string(f.Kind)})
	}
	return v
}

func secretRedactor() kind {
	return kind{interceptor.Descriptor{
		Name: Namespace + "secret-redactor", Description: "Replaces keys, tokens and passwords in requests and results",
		Hooks: interceptor.Both("*"), ConfigSchema: detectSchema(detect.SecretKinds()),
	}, redactor(detect.SecretKinds())}
}

func piiRedactor() kind {
	return kind{interceptor.Descriptor{
		Name:        Namespace + "pii-redactor",
		Description: "Replaces e-mail addresses, card, account (IBAN) and phone numbers in requests and results",
		Hooks:       interceptor.Both("*"), ConfigSchema: detectSchema(detect.PersonalKinds()),
	}, redactor(detect.PersonalKinds())}
}

func redactor(kinds []detect.Kind) func(interceptor.Descriptor, *Options) (interceptor.Interceptor, error) {
	return func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		all, err := detectors(o.Config, kinds)
		return interceptor.Mutator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
			d, err := all.of(call)
			if err != nil {
				return interceptor.Mutation{}, err
			}
			payload, n := redactValue(d, call.Payload)
			if n == 0 {
				return interceptor.Unmodified(), nil
			}
			return interceptor.Mutation{Modified: true, Payload: payload, Info: fmt.Appendf(nil, `{"redacted":%d}`, n)}, nil
		}), err
	}
}

// redactValue leaves _meta and requestState alone: they are not content, and the protocol breaks with a
// changed one.
func redactValue(d *detect.Detector, payload jsonx.Value) (jsonx.Value, int) {
	kept := map[string]jsonx.Value{}
	bare := payload
	if bytes.Contains(payload, []byte(`"_meta"`)) || bytes.Contains(payload, []byte(`"requestState"`)) {
		for _, name := range []string{"_meta", "requestState"} {
			if v, ok := wire.Member(payload, name); ok {
				kept[name] = v
				bare = wire.WithMember(bare, name, jsonx.Value("null"))
			}
		}
	}
	out, n := d.Find(bare)
	if n == 0 {
		return payload, 0
	}
	for name, v := range kept {
		out = wire.WithMember(out, name, v)
	}
	return out, n
}
