package gateway

import (
	"bufio"
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// lines is a gateway whose client speaks lines.
type lines struct {
	*front
	in   *io.PipeWriter
	out  *io.PipeReader
	done chan error // result of ServeStdio
	conn *wire.LineConn
}

func (l *lines) lineReader() *wire.LineConn {
	if l.conn == nil {
		l.conn = wire.NewLineConn(l.out, l.in, nil)
	}
	return l.conn
}

func serveLines(t *testing.T, opts Options) *lines {
	t.Helper()
	f := serve(t, opts)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	l := &lines{front: f, in: inW, out: outR, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		l.done <- f.ServeStdio(ctx, inR, outW)
		_ = outW.Close()
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		_ = outR.Close() // nobody reads any more
		cancel()
		<-served
	})
	return l
}

func (l *lines) connect(t *testing.T, opts *mcp.ClientOptions, version string) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, opts)
	if err := chain.PrepareClient(c); err != nil {
		t.Fatal(err)
	}
	cs, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: l.out, Writer: l.in}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

func TestCallOverStdio(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ backend, version string }{
		{"stdio", legacy},
		{"stdio", version20260728},
		{"http", legacy},
		{"http-json", legacy},
		{"stateless", legacy},
		{"stateless", version20260728},
	} {
		t.Run(c.backend+" "+c.version, func(t *testing.T) {
			t.Parallel()
			g := serveLines(t, Options{Backends: []Backend{backend(t, c.backend, nil)}})
			cs := g.connect(t, nil, c.version)
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
			if got := textOf(t, res, err); got != "hello" {
				t.Errorf("got %q, want hello", got)
			}
			rec := g.ledger.waitOutcome(t, methodToolsCall, schemas.OutcomeAllowed)
			if v := rec.Event.Correlation; v.ProtocolVersion != c.version || v.Transport != "stdio" {
				t.Errorf("correlation is %+v", v)
			}
			if err := cs.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			_ = g.in.Close()
			if err := <-g.done; err != nil {
				t.Errorf("ServeStdio: %v", err)
			}
		})
	}
}

// TestPipelined: a script that writes everything at once and closes gets its answers, in order.
func TestPipelined(t *testing.T) {
	t.Parallel()
	g := serveLines(t, Options{Backends: []Backend{backend(t, "stdio", nil)}})
	script := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"s","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}
`
	go func() {
		_, _ = io.WriteString(g.in, script)
		_ = g.in.Close()
	}()
	var ids []string
	sc := bufio.NewScanner(g.out)
	for sc.Scan() {
		msg := mustParse(t, sc.Bytes())
		ids = append(ids, string(msg.ID))
	}
	if diff := cmp.Diff([]string{"1", `"two"`}, ids); diff != "" {
		t.Errorf("ids of the answers (-want +got):\n%s", diff)
	}
}
