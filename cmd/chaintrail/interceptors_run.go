package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
	"uuid"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// errDeniedHere is what invoke and run end with when the answer is no.
var errDeniedHere = errors.New("denied")

// message is the payload that invoke and run are given, with what it is.
type message struct {
	event, phase, session, principal, server, tool string
}

func (m *message) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.event, "event", "tools/call", "MCP method of the payload")
	f.StringVar(&m.phase, "phase", "request", "request (the payload is params) or response (it is a result)")
	f.StringVar(&m.session, "session", "", "session id that interceptors are told")
	f.StringVar(&m.principal, "principal", "", "user id that interceptors are told")
	f.StringVar(&m.server, "of", "", "MCP server that interceptors are told")
	f.StringVar(&m.tool, "target", "", "of a response: the tool, prompt or resource that was asked for")
}

// input reads the payload from a file, or from standard input for "-".
func (m *message) input(in io.Reader, file string) (chain.Input, error) {
	var payload []byte
	var err error
	if file == "-" {
		payload, err = io.ReadAll(io.LimitReader(in, 64<<20))
	} else {
		payload, err = os.ReadFile(file) //nolint:gosec // G304: the operator names the file
	}
	if err != nil {
		return chain.Input{}, usage(fmt.Errorf("read payload: %w", err))
	}
	traits, err := jsonx.Verify(payload, 0)
	if err != nil || traits.Duplicates || traits.InvalidUTF8 {
		return chain.Input{}, usage(fmt.Errorf("%s is not strict JSON: %w", file, errors.Join(err, jsonx.DuplicateAt(payload))))
	}
	out := chain.Input{
		Interception: uuid.NewV7(), Event: m.event, Phase: schemas.Phase(m.phase), Direction: schemas.Sending, Payload: payload,
		Context: chain.Context{
			Principal: chain.Principal{Type: "anonymous"}, Timestamp: time.Now(), SessionID: m.session, Server: m.server, Target: m.tool,
		},
	}
	if m.principal != "" {
		out.Context.Principal = chain.Principal{Type: "user", ID: m.principal}
	}
	switch out.Phase {
	case schemas.PhaseRequest:
	case schemas.PhaseResponse:
		out.Direction = schemas.Receiving
	default:
		return out, usage(fmt.Errorf("--phase %q is not one of request, response", m.phase))
	}
	return out, nil
}

func needs(what string, n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(withHint(fmt.Errorf("%s needs %s", cmd.CommandPath(), what), cmd.CommandPath()+" --help"))
		}
		return nil
	}
}

func newInvokeCmd(a *app) *cobra.Command {
	var m message
	var server, config string
	cmd := &cobra.Command{
		Use:   "invoke NAME PAYLOAD-FILE",
		Short: "Invoke one interceptor by hand",
		Long:  "Invokes a built-in, an interceptor of the configured servers, or with --server one of that server. - reads standard input.",
		Example: "  echo '{\"name\":\"x\",\"arguments\":{\"password\":\"p\"}}' | chaintrail interceptors invoke chaintrail/secret-detector -\n" +
			"  chaintrail interceptors invoke acme/no-mail call.json --server ./guard",
		Args: needs("the name of an interceptor and a payload file", 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := m.input(a.in, args[1])
			if err != nil {
				return err
			}
			entry, answer, err := a.invokeOne(cmd.Context(), args[0], server, config, in)
			if err != nil {
				return err
			}
			return a.printAnswer(&in, entry, &answer)
		},
	}
	m.flags(cmd)
	cmd.Flags().StringVar(&server, "server", "", "a URL or command line of the server that has it")
	cmd.Flags().StringVar(&config, "with", "", "its configuration, as JSON")
	a.outputFlag(cmd)
	return cmd
}

// invokeOne makes a plan of one server, or of the configuration, and takes the interceptor from it.
func (a *app) invokeOne(ctx context.Context, name, server, config string, in chain.Input) (entry schemas.PlanEntry, answer chain.Answer, err error) {
	var given jsonx.Value
	if config != "" {
		given = jsonx.Value(config)
		if _, err := jsonx.Verify(given, 0); err != nil {
			return entry, answer, usage(fmt.Errorf("--with is not JSON: %w", err))
		}
	}
	if server == "" && slices.Contains(builtin.Names(), name) {
		if _, err := builtin.New(name, &builtin.Options{Config: given}); err != nil { // names the place; an answer would not
			return entry, answer, usage(fmt.Errorf("--with: %w", err))
		}
		server = name
	}
	if server != "" {
		a.interceptors = []string{server}
	}
	err = a.withPlanOf(ctx, server != "", func(ctx context.Context, _ *node, plan *chain.Plan) error {
		for _, i := range plan.Interceptors() {
			if i.Entry().Name != name {
				continue
			}
			entry = i.Entry()
			if config != "" {
				i = i.WithConfig(given)
			}
			answer = i.Invoke(ctx, in, nil)
			return nil
		}
		return withHint(fmt.Errorf("no interceptor %q is in force", name), "chaintrail interceptors list --configured")
	})
	return entry, answer, err
}

func (a *app) printAnswer(in *chain.Input, entry schemas.PlanEntry, answer *chain.Answer) error {
	one := chain.Reported{
		Interceptor: entry.Name, Version: entry.Version, Host: entry.Host, Type: entry.Type, Mode: entry.Mode, FailOpen: entry.FailOpen,
		InputDigest: sha256.Sum256(in.Payload),
	}
	one.Take(answer)
	err := a.print(one, func() error {
		a.drawRan(&one)
		return nil
	})
	if err == nil && (!answer.Finished() || answer.Blocks) {
		return fmt.Errorf("%w: %s %s of %s", errDeniedHere, entry.Name, one.State, in.Event)
	}
	return err
}

func newRunCmd(a *app) *cobra.Command {
	var m message
	cmd := &cobra.Command{
		Use:   "run PAYLOAD-FILE",
		Short: "Run the whole plan on a payload",
		Long: "Runs the configured interceptors on a payload as the gateway would, sinks and audit mode included, and prints\n" +
			"the full result. Nothing is recorded. - reads standard input.",
		Example: "  chaintrail interceptors run call.json --interceptor chaintrail/pii-redactor --interceptor ./guard",
		Args:    needs("a payload file", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := m.input(a.in, args[0])
			if err != nil {
				return err
			}
			return a.withPlan(cmd.Context(), func(ctx context.Context, _ *node, plan *chain.Plan) error {
				return a.runPlan(ctx, plan, in)
			})
		},
	}
	m.flags(cmd)
	a.interceptorFlag(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a *app) runPlan(ctx context.Context, plan *chain.Plan, in chain.Input) error {
	in.KeepSteps = true
	res := plan.Run(ctx, in)
	report := res.Report(&in)
	members := map[[2]string]*chain.Interceptor{}
	for _, i := range plan.Interceptors() {
		e := i.Entry()
		members[[2]string{e.Host, e.Name}] = i
	}
	for i := range report.Results {
		one := &report.Results[i]
		if m := members[[2]string{one.Host, one.Interceptor}]; one.State == schemas.StateDeferred && m != nil {
			later := in
			later.Payload = res.PayloadOf(&in, one.Input)
			answer := m.Invoke(ctx, later, nil)
			one.Take(&answer)
		}
	}
	err := a.print(report, func() error { a.drawReport(report); return nil })
	if err == nil && !report.Allowed {
		return fmt.Errorf("%w by %s", errDeniedHere, report.AbortedAt.Interceptor)
	}
	return err
}

func (a *app) drawReport(r *chain.Report) {
	fmt.Fprintf(a.out, "%s in %d µs, plan %.12s\n", r.Status, r.DurationUS, r.PlanDigest)
	for i := range r.Results {
		a.drawRan(&r.Results[i])
	}
	if r.AbortedAt != nil {
		a.line("denied by "+r.AbortedAt.Interceptor, r.AbortedAt.Reason)
		return
	}
	fmt.Fprintf(a.out, "%s\n", r.FinalPayload)
}

// withPlan makes the configured plan, without recording it, and closes its connections again.
func (a *app) withPlan(ctx context.Context, use func(context.Context, *node, *chain.Plan) error) error {
	return a.withPlanOf(ctx, false, use)
}

func (a *app) withPlanOf(ctx context.Context, flaggedOnly bool, use func(context.Context, *node, *chain.Plan) error) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if flaggedOnly {
		cfg.Interceptors = cfg.Interceptors[len(cfg.Interceptors)-len(a.interceptors):]
	}
	if a.logLevel == "" {
		cfg.Log.Level = "error" // what starts for one command is no news
	}
	n := &node{app: a, cfg: cfg, log: a.logger(cfg)} // no journal, no keys: nothing is recorded
	opts, err := n.setOptions(cfg)
	if err != nil {
		return usage(err)
	}
	set, err := chain.NewSet(opts)
	if err != nil {
		return usage(err)
	}
	if err := set.Start(ctx); err != nil {
		return withHint(err, "start the interceptor server, or take it out of interceptors:")
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- set.Run(running) }() // exits after stop
	err = use(ctx, n, set.Current())
	stop()
	return errors.Join(err, <-done)
}

// drawRan draws an invocation as show does.
func (a *app) drawRan(one *chain.Reported) {
	a.invocation(&query.Invocation{Invocation: one.Invocation, Detail: one.Detail})
}
