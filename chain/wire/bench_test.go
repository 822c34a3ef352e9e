package wire_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// payload2KB looks like the arguments of a tool call.
func payload2KB() jsonx.Value {
	var b strings.Builder
	b.WriteString(`{"name":"send_mail","event":"tools/call","phase":"request","payload":{"name":"send_mail","arguments":{"to":"a@example.org"`)
	for i := range 20 {
		b.WriteString(`,"field_` + string(rune('a'+i)) + `":"some text with a quote \" in it, and some more of it until it is long","n` + string(rune('a'+i)) + `":12345.5`)
	}
	b.WriteString(`}}}`)
	return jsonx.Value(b.String())
}

func BenchmarkParse(b *testing.B) {
	raw := wire.NewRequest(jsonx.Value("1234"), "tools/call", payload2KB())
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Parse(raw, wire.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWithParams(b *testing.B) {
	msg, err := wire.Parse(wire.NewRequest(jsonx.Value("1234"), "tools/call", payload2KB()), wire.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	params := payload2KB()
	b.ReportAllocs()
	for b.Loop() {
		_ = msg.WithParams(params)
	}
}

// benchmarkCalls calls "echo" with 2 KB and waits for each answer.
func benchmarkCalls(b *testing.B, conn wire.Conn) {
	b.Helper()
	client := wire.NewClient(conn, nil)
	done := make(chan struct{})
	go func() { defer close(done); _ = client.Run(context.Background()) }()
	if _, err := client.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	params := payload2KB()
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), 5e9)
		if _, err := client.Call(ctx, "echo", params); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
	b.StopTimer()
	_ = client.Close()
	<-done
}

func BenchmarkCallLeanToLeanPipes(b *testing.B) {
	ours, theirs := pipes(b)
	done := make(chan struct{})
	go func() { defer close(done); serveEcho(theirs) }()
	benchmarkCalls(b, ours)
	<-done
	_ = theirs.Close()
}

func BenchmarkCallLeanToLeanChild(b *testing.B) {
	child := startChild(b, "echo", nil)
	benchmarkCalls(b, child)
	_ = child.Stop(context.Background())
}

func BenchmarkCallLeanToSDKChild(b *testing.B) {
	child := startChild(b, "sdk", nil)
	benchmarkCalls(b, child)
	_ = child.Stop(context.Background())
}

// The same call with the SDK on both sides, to compare.
func BenchmarkCallSDKToSDKChild(b *testing.B) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"=sdk")
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](client, "echo"); err != nil {
		b.Fatal(err)
	}
	session, err := client.Connect(b.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: wire.Version20251125})
	if err != nil {
		b.Fatal(err)
	}
	params := payload2KB()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mcp.CallCustomMethod[*rawParams, *rawResult](b.Context(), session, "echo", &rawParams{raw: params}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	_ = session.Close()
}

// The bytes of an operation show how often 12 MB are copied on both sides together.
func BenchmarkCall12MB(b *testing.B) {
	ours, theirs := pipes(b)
	done := make(chan struct{})
	go func() { defer close(done); serveEcho(theirs) }()
	client := wire.NewClient(ours, nil)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = client.Run(context.Background()) }()
	params := jsonx.Value(`{"text":"` + strings.Repeat("x", 12<<20) + `"}`)
	b.SetBytes(int64(len(params)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Call(b.Context(), "echo", params); err != nil {
			b.Fatal(err)
		}
	}
	_ = client.Close()
	<-ended
	<-done
	_ = theirs.Close()
}
