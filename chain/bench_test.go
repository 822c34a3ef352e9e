package chain_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// payload2K is params of a tool call, 2 KB.
func payload2K() jsonx.Value {
	return jsonx.Value(`{"name":"write_note","arguments":{"path":"/notes/today.md","text":"` +
		strings.Repeat("lorem ipsum \\\"dolor\\\" ", 90) + `","tags":["a","b"],"count":42}}`)
}

func noop(name string) interceptor.Interceptor {
	return interceptor.Validator(interceptor.Descriptor{Name: name, Hooks: interceptor.Both("tools/call")},
		func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
			return interceptor.Verdict{Valid: true}, nil
		})
}

func input(event string) chain.Input {
	return chain.Input{
		Interception: uuid.NewV7(), Event: event, Phase: schemas.PhaseRequest, Direction: schemas.Sending,
		Payload: payload2K(),
		Context: chain.Context{
			Principal: chain.Principal{Type: "user", ID: "u-17"}, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
			SpanID: "00f067aa0ba902b7", Timestamp: time.Now(), SessionID: "s-3",
		},
	}
}

func BenchmarkRun(b *testing.B) {
	for _, n := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("in-process/%d", n), func(b *testing.B) {
			list := []interceptor.Interceptor{}
			for i := range n {
				list = append(list, noop(fmt.Sprintf("bench/noop-%d", i)))
			}
			bench(b, chain.Local(serve(b, list...)))
		})
	}
	b.Run("stdio/1", func(b *testing.B) {
		server := serve(b, noop("bench/noop"))
		bench(b, chain.Remote(overPipes(b, func(r, w *os.File) { _ = server.ServeStdio(context.Background(), r, w) }), nil))
	})
}

func bench(b *testing.B, connect func(context.Context) (chain.Conn, error)) {
	b.Helper()
	plan := planOf(b, chain.Config{}, chain.HostSpec{
		Ref: schemas.HostRef{Host: "bench"}, Connect: connect,
	})
	in, ctx := input("tools/call"), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if result := plan.Run(ctx, in); result.Denial != nil {
			b.Fatal(result.Denial.Reason)
		}
	}
}
