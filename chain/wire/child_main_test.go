package wire_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// runChild is what the test binary does as a child process.
func runChild(mode string) int {
	switch mode {
	case "echo":
		conn := wire.NewLineConn(os.Stdin, os.Stdout, nil)
		serveEcho(conn)
	case "sdk":
		if err := newSDKServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "stubborn": // ignores EOF and SIGTERM, and has a child of its own
		signal.Ignore(syscall.SIGTERM)
		grandchild := exec.Command("sleep", "600")
		grandchild.Stderr = os.Stderr
		if err := grandchild.Start(); err != nil {
			return 1
		}
		fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","method":"notifications/pid","params":{"pid":%d}}`+"\n", grandchild.Process.Pid)
		fmt.Fprintln(os.Stderr, "still here")
		select {}
	case "parting": // answers only when its stdin ends
		n := 0
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			n++
		}
		fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","method":"notifications/bye","params":{"lines":%d}}`+"\n", n)
	case "parent": // starts a deaf child, tells its id and waits to be killed
		exe, err := os.Executable()
		if err != nil {
			return 1
		}
		child, err := wire.StartChild(wire.ChildConfig{Command: []string{exe}, Env: append(os.Environ(), "WIRE_TEST_CHILD=deaf")})
		if err != nil {
			return 1
		}
		fmt.Fprintln(os.Stdout, child.PID())
		select {}
	case "deaf": // never reads
		select {}
	}
	return 0
}

// serveEcho answers each request with its params, and "fail" with an error answer.
func serveEcho(conn *wire.LineConn) {
	_ = conn.Receive(context.Background(), func(raw []byte) {
		msg, err := wire.Parse(raw, wire.Limits{})
		if err != nil || msg.Kind != wire.KindRequest {
			return
		}
		answer := wire.NewResponse(msg.ID, msg.Params)
		switch msg.Method {
		case "fail":
			answer = wire.NewErrorAnswer(msg.ID, &wire.RPCError{Code: -32001, Message: "no", Data: msg.Params})
		case "hang":
			return
		case "initialize":
			answer = wire.NewResponse(msg.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"echo","version":"1"}}`))
		}
		_ = conn.Send(context.Background(), answer, nil)
	}, nil)
}

// rawValue passes JSON through the SDK byte for byte.
type rawParams struct {
	mcp.ParamsBase
	raw json.RawMessage
}

func (p *rawParams) UnmarshalJSON(b []byte) error { p.raw = append(p.raw[:0], b...); return nil }
func (p *rawParams) MarshalJSON() ([]byte, error) { return p.raw, nil }

type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

func (r *rawResult) UnmarshalJSON(b []byte) error { r.raw = append(r.raw[:0], b...); return nil }
func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }

// newSDKServer answers the custom method "echo" with its params.
func newSDKServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	err := mcp.AddReceivingCustomMethod(server, "echo",
		func(_ context.Context, _ *mcp.ServerSession, p *rawParams) (*rawResult, error) {
			return &rawResult{raw: p.raw}, nil
		})
	if err != nil {
		panic(err)
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(
		_ context.Context, _ *mcp.CallToolRequest, in struct {
			Name string `json:"name"`
		},
	) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	return server
}
