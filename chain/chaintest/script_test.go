package chaintest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// scripted is an interceptor that says the same to every call, in raw JSON.
type scripted struct {
	Descriptor jsonx.Value `json:"descriptor"`
	Result     jsonx.Value `json:"result"`
	Error      *struct {
		Code    int         `json:"code"`
		Message string      `json:"message"`
		Data    jsonx.Value `json:"data"`
	} `json:"error"`
	Append string `json:"append"` // a mutator that appends to the string member l, wherever params are
	Hang   bool   `json:"hang"`
}

// scriptServer is an interceptor server of raw answers.
type scriptServer struct {
	list []scripted

	mu    sync.Mutex
	calls []string // params of each invoke since they were last described
}

// Call implements chain.Conn: this is the server in process, and what answers over stdio.
func (s *scriptServer) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	if method == interceptor.MethodList {
		var descriptors []string
		for i := range s.list {
			descriptors = append(descriptors, string(s.list[i].Descriptor))
		}
		return jsonx.Value(`{"interceptors":[` + strings.Join(descriptors, ",") + `]}`), nil
	}
	name, _ := wire.MemberString(params, "name")
	for i := range s.list {
		if own, _ := wire.MemberString(s.list[i].Descriptor, "name"); own == name && method == interceptor.MethodInvoke {
			s.mu.Lock()
			s.calls = append(s.calls, string(params))
			s.mu.Unlock()
			return s.list[i].answer(ctx, params)
		}
	}
	return nil, &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "Method not found"}
}

func (s *scriptServer) Done() <-chan struct{} { return nil }
func (s *scriptServer) Close() error          { return nil }

func (i *scripted) answer(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
	switch {
	case i.Hang:
		<-ctx.Done()
		return nil, fmt.Errorf("call %s: %w", interceptor.MethodInvoke, ctx.Err()) // as the client over stdio says it
	case i.Error != nil:
		return nil, &wire.RPCError{Code: i.Error.Code, Message: i.Error.Message, Data: i.Error.Data}
	case i.Append == "":
		return i.Result, nil
	}
	payload, _ := wire.Member(params, "payload")
	bare := payload
	inner, enveloped := wire.Member(payload, "params")
	if enveloped {
		bare = inner
	}
	l, _ := wire.MemberString(bare, "l")
	bare = wire.WithMember(bare, "l", jsonx.Value(`"`+l+i.Append+`"`))
	if enveloped {
		bare = wire.WithMember(payload, "params", bare)
	}
	return jsonx.Value(`{"modified":true,"payload":` + string(bare) + `}`), nil
}

// describeCalls writes what was asked, and forgets it. Validators are asked at once, so the calls are
// sorted.
func (s *scriptServer) describeCalls(out *bytes.Buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.calls)
	for _, call := range s.calls {
		fmt.Fprintf(out, "call %s\n", call)
	}
	s.calls = nil
}

// connect returns a way to the server.
func (s *scriptServer) connect(t *testing.T, way string) func(context.Context) (chain.Conn, error) {
	t.Helper()
	if way == "in process" {
		return func(context.Context) (chain.Conn, error) { return s, nil }
	}
	return chain.Remote(func(context.Context) (wire.Conn, error) {
		return overPipes(t, func(r, w *os.File) { s.serveLines(t, r, w) }), nil
	}, &wire.ClientOptions{Probe: []string{wire.Version20251125}})
}

// serveLines answers one client over lines.
func (s *scriptServer) serveLines(t *testing.T, r, w *os.File) {
	t.Helper()
	lines := wire.NewLineConn(r, w, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer func() { cancel(); work.Wait(); _ = lines.Close() }()
	for {
		raw, err := lines.ReadMessage()
		if err != nil {
			return
		}
		msg, err := wire.Parse(raw, wire.Limits{})
		if err != nil || msg.Kind != wire.KindRequest {
			continue
		}
		if msg.Method == wire.MethodInitialize {
			hello := `{"protocolVersion":"2025-11-25","capabilities":{"extensions":{"io.modelcontextprotocol/interceptors":{}}},"serverInfo":{"name":"s","version":"1"}}`
			_ = lines.Send(ctx, wire.NewResponse(msg.ID, jsonx.Value(hello)), nil)
			continue
		}
		work.Go(func() { // exits with its answer, or with the connection
			result, err := s.Call(ctx, msg.Method, msg.Params)
			answer := wire.NewResponse(msg.ID, result)
			if rpc, ok := errors.AsType[*wire.RPCError](err); ok {
				answer = wire.NewErrorAnswer(msg.ID, rpc)
			} else if err != nil {
				return
			}
			_ = lines.Send(ctx, answer, nil)
		})
	}
}
