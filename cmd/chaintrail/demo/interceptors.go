package demo

import (
	"context"
	"regexp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/internal/detect"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Interceptors returns the demo's four: a mutator and a validator in the path, a validator in audit
// mode and a sink out of it.
func Interceptors(version string, redactor *detect.Detector) (*interceptor.Server, error) {
	return interceptor.New(
		&interceptor.Options{Name: "chaintrail-demo", Version: version},
		customerRedactor(version),
		secretDetector(version, redactor),
		mailPolicy(version),
		callRecorder(version),
	)
}

var addressRE = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`)

// customerRedactor hides mail addresses in what tools answer.
func customerRedactor(version string) interceptor.Interceptor {
	return interceptor.Mutator(interceptor.Descriptor{
		Name: "demo/customer-redactor", Version: version, Description: "Hides mail addresses in results",
		Hooks: interceptor.OnResponse("tools/call"),
	}, func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
		hidden := addressRE.ReplaceAll(call.Payload, []byte("hidden"))
		return interceptor.Mutation{Modified: string(hidden) != string(call.Payload), Payload: hidden}, nil
	})
}

// secretDetector blocks requests that carry a key or token.
func secretDetector(version string, redactor *detect.Detector) interceptor.Interceptor {
	return interceptor.Validator(interceptor.Descriptor{
		Name: "demo/secret-detector", Version: version, Description: "Blocks requests that carry a secret",
		Hooks: interceptor.OnRequest("tools/call"),
	}, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
		// Mail addresses are no secret here: what is left is keys, tokens and passwords.
		if _, found := redactor.Find(addressRE.ReplaceAll(call.Payload, nil)); found > 0 {
			return interceptor.Deny("the arguments carry a secret"), nil
		}
		return interceptor.Pass(), nil
	})
}

// mailPolicy is a rule that is tried out: in audit mode it says what it would block, and blocks nothing.
func mailPolicy(version string) interceptor.Interceptor {
	return interceptor.TypedValidator(interceptor.Descriptor{
		Name: "demo/mail-policy", Version: version, Description: "Would block mail to the outside",
		Mode: schemas.ModeAudit, FailOpen: true, Hooks: interceptor.OnRequest("tools/call"),
	}, func(_ context.Context, _ *interceptor.Call, p *struct {
		Name      string `json:"name"`
		Arguments struct {
			To jsonx.Value `json:"to"`
		} `json:"arguments"`
	},
	) (interceptor.Verdict, error) {
		if p.Name == "send_mail" && addressRE.Match(p.Arguments.To) {
			return interceptor.Deny("address outside the company"), nil
		}
		return interceptor.Pass(), nil
	})
}

// callRecorder is a sink: it looks on.
func callRecorder(version string) interceptor.Interceptor {
	return interceptor.Sink(interceptor.Descriptor{
		Name: "demo/call-recorder", Version: version, Description: "Counts the bytes of results",
		Hooks: interceptor.OnResponse("tools/call"),
	}, func(_ context.Context, call *interceptor.Call) (interceptor.Receipt, error) {
		return interceptor.Receipt{Recorded: true, Metrics: map[string]float64{"bytes": float64(len(call.Payload))}}, nil
	})
}
