package interceptor_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// benchParams is an invocation of a validator that does nothing, with a payload of 2 KB.
func benchParams() jsonx.Value {
	return jsonx.Value(`{"name":"pass","event":"tools/call","phase":"request","timeoutMs":5000,` +
		`"payload":{"name":"t","arguments":{"text":"` + strings.Repeat(`some words, and a \"quote\"; `, 70) + `"}}}`)
}

func BenchmarkInvokeInProcess(b *testing.B) {
	server := newZoo(b, nil)
	p := benchParams()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := server.Invoke(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInvokeStdio calls a server in a process of its own: lean, and as a go-sdk server.
func BenchmarkInvokeStdio(b *testing.B) {
	for _, kind := range []string{"lean", "sdk"} {
		b.Run(kind, func(b *testing.B) {
			exe, err := os.Executable()
			if err != nil {
				b.Fatal(err)
			}
			child, err := wire.StartChild(wire.ChildConfig{Command: []string{exe}, Env: append(os.Environ(), childMode+"="+kind)})
			if err != nil {
				b.Fatal(err)
			}
			client := wire.NewClient(child, nil)
			done := make(chan struct{})
			go func() { defer close(done); _ = client.Run(context.Background()) }()
			if _, err := client.Initialize(b.Context()); err != nil {
				b.Fatal(err)
			}
			p := benchParams()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Call(b.Context(), interceptor.MethodInvoke, p); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			_ = child.Stop(context.Background())
			<-done
		})
	}
}

// runChild serves the zoo on the test binary's standard input and output.
func runChild(kind string) int {
	server, err := interceptor.New(nil, zoo()...)
	if err != nil {
		return 1
	}
	if kind == "lean" {
		err = server.ServeStdio(context.Background(), os.Stdin, os.Stdout)
	} else {
		sdk := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
		if err = server.Install(sdk); err == nil {
			err = sdk.Run(context.Background(), &mcp.StdioTransport{})
		}
	}
	if err != nil {
		return 1
	}
	return 0
}

// BenchmarkHandlers is what decoding payload and config adds: 2 KB of arguments.
func BenchmarkHandlers(b *testing.B) {
	payload := `{"name":"send_mail","arguments":{"to":"x@example.com","text":"` + strings.Repeat("word ", 400) + `"}}`
	d := &Desk{Directory: func(context.Context, string) (bool, error) { return true, nil }}
	server, err := interceptor.New(nil, d.interceptor(), interceptor.Validator(on("raw"),
		func(context.Context, *call) (verdict, error) { return interceptor.Pass(), nil }))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"raw", "acme/known-mail"} {
		params := jsonx.Value(`{"name":"` + name + `","event":"tools/call","phase":"request","payload":` + payload + `,"config":{"allowed":["a"]}}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := server.Invoke(b.Context(), params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
