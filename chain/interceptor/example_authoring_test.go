package interceptor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Everything in this file is shown in docs/authoring.md.

func noMail(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
	if bytes.Contains(call.Payload, []byte("@")) {
		return interceptor.Deny("no addresses, please"), nil
	}
	return interceptor.Pass(), nil
}

// Mail is a tool call, as far as it matters here.
type Mail struct {
	Name      string `json:"name"`
	Arguments struct {
		To string `json:"to"`
	} `json:"arguments"`
}

// Domains is the config: its schema is inferred, advertised and enforced.
type Domains struct {
	Allowed []string `json:"allowed" jsonschema:"domains that mail may go to"`
	Strict  bool     `json:"strict,omitzero" jsonschema:"block; else warn"`
}

// Desk has what its handlers need.
type Desk struct {
	Directory func(ctx context.Context, address string) (known bool, err error)
}

func (d *Desk) judge(ctx context.Context, call *interceptor.Call, mail *Mail, config *Domains) (interceptor.Verdict, error) {
	if mail.Name != "send_mail" {
		return interceptor.Pass(), nil
	}
	known, err := d.Directory(ctx, mail.Arguments.To)
	if err != nil {
		return interceptor.Verdict{}, fmt.Errorf("ask directory: %w", err) // a failed invocation, not a denial
	}
	for _, domain := range config.Allowed {
		if known || strings.HasSuffix(mail.Arguments.To, "@"+domain) {
			return interceptor.Pass(), nil
		}
	}
	caller, err := call.Caller()
	if err != nil {
		return interceptor.Verdict{}, err
	}
	v := interceptor.Warn("mail to a stranger")
	if config.Strict && caller.Principal.Type != "service" {
		v = interceptor.Deny("mail to a stranger")
	}
	v.Messages[0].Path = "arguments.to"
	return v, nil
}

func (d *Desk) interceptor() interceptor.Interceptor {
	return interceptor.ConfiguredValidator(interceptor.Descriptor{
		Name: "acme/known-mail", Version: "1.0.0", Description: "Mail goes to people we know",
		Hooks:         interceptor.OnRequest(interceptor.EventToolsCall),
		DefaultConfig: jsonx.Value(`{"allowed":["example.com"]}`),
	}, d.judge)
}

func redactor() interceptor.Interceptor {
	return interceptor.Mutator(interceptor.Descriptor{
		Name: "acme/redactor", Hooks: interceptor.Both(interceptor.EventToolsCall),
		Priority: interceptor.Priority{Request: 100, Response: -100}, // last on the way out, first on the way back
	}, func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
		if !bytes.Contains(call.Payload, []byte("hunter2")) {
			return interceptor.Unmodified(), nil
		}
		return interceptor.Modified(bytes.ReplaceAll(call.Payload, []byte("hunter2"), []byte("[gone]"))), nil
	})
}

func metrics() interceptor.Interceptor {
	return interceptor.TypedSink(interceptor.Descriptor{
		Name: "acme/metrics", Hooks: interceptor.OnResponse(interceptor.EventToolsCall),
	}, func(_ context.Context, _ *interceptor.Call, result *struct {
		IsError bool `json:"isError"`
	},
	) (interceptor.Receipt, error) {
		if result.IsError {
			return interceptor.Receipt{Recorded: true, Metrics: map[string]float64{"errors": 1}}, nil
		}
		return interceptor.Recorded(), nil
	})
}

func whoAsks(ctx context.Context, call *interceptor.Call) (bool, error) {
	if token := interceptor.RequestOf(ctx).Token; token != nil && token.UserID != "gateway" {
		return false, errors.New("only the gateway may ask")
	}
	return call.Phase == schemas.PhaseRequest || call.SessionID() != "", nil
}

func desk() *interceptor.Server {
	d := &Desk{Directory: func(context.Context, string) (bool, error) { return false, nil }}
	server, err := interceptor.New(&interceptor.Options{Name: "acme-desk", Version: "1.0.0", Timeout: 2 * time.Second},
		d.interceptor(), redactor(), metrics(),
		interceptor.Validator(interceptor.Descriptor{
			Name: "acme/no-mail", Hooks: interceptor.OnRequest("tools/*"), Mode: schemas.ModeAudit, FailOpen: true,
		}, noMail),
		interceptor.ValidatorBool(interceptor.Descriptor{Name: "acme/who-asks", Hooks: interceptor.Both("*")}, whoAsks))
	if err != nil {
		log.Fatal(err)
	}
	return server
}

func serveStdio(ctx context.Context) error { return desk().ServeStdio(ctx, os.Stdin, os.Stdout) }

func serveHTTP() error {
	server := http.Server{Addr: "localhost:9100", Handler: desk().HTTPHandler(), ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

func serveBesideTools(tools *mcp.Server) error { return desk().Install(tools) }

// What docs/authoring.md shows does what it says.
func Example_authoring() {
	_, _, _ = serveStdio, serveHTTP, serveBesideTools // what a program ends with
	server := desk()
	for _, c := range []string{
		`{"name":"acme/known-mail","event":"tools/call","phase":"request","payload":{"name":"send_mail","arguments":{"to":"x@y.org"}}}`,
		`{"name":"acme/known-mail","event":"tools/call","phase":"request","payload":{"name":"send_mail","arguments":{"to":"x@y.org"}},"config":{"allowed":[""],"strict":true}}`,
		`{"name":"acme/known-mail","event":"tools/call","phase":"request","payload":{"name":"send_mail"},"config":{}}`,
		`{"name":"acme/redactor","event":"tools/call","phase":"response","payload":{"text":"hunter2"}}`,
		`{"name":"acme/metrics","event":"tools/call","phase":"response","payload":{"isError":true}}`,
	} {
		result, err := server.Invoke(context.Background(), jsonx.Value(c))
		if err != nil {
			fmt.Println(err)
			continue
		}
		for _, member := range []string{"severity", "payload", "metrics"} {
			if v, ok := jsonx.Lookup(result, member); ok {
				fmt.Println(string(v))
			}
		}
	}
	// Output:
	// "warn"
	// "error"
	// JSON-RPC error -32602: Invalid params: config does not match configSchema
	// {"text":"[gone]"}
	// {"errors":1}
}
