package schemas

import (
	"reflect"
	"uuid"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// JSONSchemas returns the JSON Schema (2020-12) of each published form by file name; the files in
// schemas/event/v1 are generated from it and checked by a test.
func JSONSchemas() (map[string][]byte, error) {
	forms := []struct {
		file, title string
		typ         reflect.Type
	}{
		{"event.schema.json", "Sealed event", reflect.TypeFor[Event]()},
		{"open-header.schema.json", "Header of an open item", reflect.TypeFor[OpenHeader]()},
		{"context.schema.json", "Value of a context item", reflect.TypeFor[Context]()},
		{"detail.schema.json", "Value of a detail item", reflect.TypeFor[Detail]()},
	}
	options := &jsonschema.ForOptions{TypeSchemas: typeSchemas()}
	out := make(map[string][]byte, len(forms))
	for _, form := range forms {
		schema, err := jsonschema.ForType(form.typ, options)
		if err != nil {
			return nil, err
		}
		schema.Schema = "https://json-schema.org/draft/2020-12/schema"
		schema.Title = form.title
		text, err := jsonx.Marshal(schema)
		if err != nil {
			return nil, err
		}
		value := jsonx.Value(text)
		if err := value.Indent(); err != nil {
			return nil, err
		}
		out[form.file] = append(value, '\n')
	}
	return out, nil
}

func typeSchemas() map[reflect.Type]*jsonschema.Schema {
	pattern := func(p string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: p} }
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[uuid.UUID]():       pattern(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
		reflect.TypeFor[seal.Hash]():       pattern(`^[0-9a-f]{64}$`),
		reflect.TypeFor[seal.Salt]():       pattern(`^[A-Za-z0-9+/]{43}$`),
		reflect.TypeFor[seal.Pseudonym]():  pattern(`^[0-9a-f]{32}$`),
		reflect.TypeFor[Time]():            pattern(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`),
		reflect.TypeFor[jsonx.Value]():     {},
		reflect.TypeFor[Kind]():            enum(Kinds()...),
		reflect.TypeFor[Outcome]():         enum(OutcomeAllowed, OutcomeDenied, OutcomeError, OutcomeCancelled, OutcomeLost, OutcomeStopped),
		reflect.TypeFor[Status]():          enum(StatusSuccess, StatusValidationFailed, StatusMutationFailed, StatusTimeout, StatusCancelled, StatusNotRun),
		reflect.TypeFor[Phase]():           enum(PhaseRequest, PhaseResponse),
		reflect.TypeFor[Direction]():       enum(Sending, Receiving),
		reflect.TypeFor[InterceptorType](): enum(TypeValidation, TypeMutation, TypeSink),
		reflect.TypeFor[Mode]():            enum(ModeActive, ModeAudit),
		reflect.TypeFor[Severity]():        enum(SeverityInfo, SeverityWarn, SeverityError),
		reflect.TypeFor[InvocationState](): enum(StateFinished, StateFailed, StateTimeout, StateMalformed, StateSkipped, StateDeferred),
		reflect.TypeFor[SkipReason]():      enum(SkipAborted, SkipChainExpiry, SkipCancelled, SkipPolicy, SkipErased, SkipBudget, SkipSampling),
		reflect.TypeFor[Keep]():            enum(KeepNone, KeepDigest, KeepRedacted, KeepFull),
	}
}

func enum[T ~string](values ...T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}
