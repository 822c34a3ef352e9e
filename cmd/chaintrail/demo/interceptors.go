package demo

import (
	"context"

	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Interceptors returns the demo's four: a mutator and a validator in the path, a validator in audit
// mode and a sink out of it. All but the sink are built-ins.
func Interceptors(version string) (*interceptor.Server, error) {
	redactor, err := builtin.New(builtin.Namespace+"pii-redactor", &builtin.Options{Version: version})
	if err != nil {
		return nil, err
	}
	redactor.Descriptor.Hooks = interceptor.OnResponse("tools/call") // a mail still needs its recipient
	detector, err := builtin.New(builtin.Namespace+"secret-detector", &builtin.Options{Version: version})
	if err != nil {
		return nil, err
	}
	policy, err := mailPolicy(version)
	if err != nil {
		return nil, err
	}
	return interceptor.New(&interceptor.Options{Name: "chaintrail-demo", Version: version}, redactor, detector, policy, callRecorder(version))
}

// mailPolicy is a rule that is tried out: in audit mode it says what it would block, and blocks nothing.
func mailPolicy(version string) (interceptor.Interceptor, error) {
	policy, err := builtin.New(builtin.Namespace+"policy", &builtin.Options{
		As: "demo/mail-policy", Version: version, Config: jsonx.Value(`{"rules":[{"name":"mail",` +
			`"when":"tool == 'send_mail' && !string(arguments.to).endsWith('@example.com')",` +
			`"action":"deny","message":"address outside the company"}]}`),
	})
	d := &policy.Descriptor
	d.Description, d.Mode, d.FailOpen, d.Hooks = "Would block mail to the outside", schemas.ModeAudit, true, interceptor.OnRequest("tools/call")
	return policy, err
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
