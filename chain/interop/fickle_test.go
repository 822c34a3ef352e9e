package interop_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// fickle is what the one validator of a [fickleServer] does. Zero: it passes everything.
type fickle struct {
	result string   // in place of a verdict
	lines  []string // in place of the answer; ID stands for its id
	error  string   // the error member of the answer
	hang   bool     // no answer
	crash  bool     // the connection ends
}

// fickleServer is an interceptor server over raw lines that misbehaves as it is told.
type fickleServer struct {
	limit   time.Duration // of an invocation
	serving sync.WaitGroup

	mu   sync.Mutex
	mind fickle
}

// newFickle makes one; an impatient one is not waited for long.
func newFickle(t *testing.T, impatient bool) *fickleServer {
	t.Helper()
	s := &fickleServer{limit: 20 * time.Second}
	if impatient {
		s.limit = 200 * time.Millisecond
	}
	t.Cleanup(s.serving.Wait)
	return s
}

func (s *fickleServer) set(f fickle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mind = f
}

// plan puts the server in force and keeps it connected.
func (s *fickleServer) plan(t *testing.T) func() gateway.Plan {
	t.Helper()
	set, err := chain.NewSet(chain.SetOptions{
		ChainTimeout: 30 * time.Second, Retry: retry.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond},
		Hosts: []chain.HostSpec{{Ref: schemas.HostRef{Host: "fickle"}, Timeout: s.limit, Connect: chain.Remote(s.open, nil)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = set.Run(ctx) }() // exits with ctx
	t.Cleanup(func() { cancel(); <-done })
	return func() gateway.Plan { return set.Current() }
}

// waitReady waits until a message passes: the connection may have to be made anew.
func (s *fickleServer) waitReady(t *testing.T, plan gateway.Plan) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	in := chain.Input{Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Payload: jsonx.Value("{}")}
	for {
		result := plan.Run(ctx, in)
		if result.Denial == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the interceptor does not come back: %+v", result.Denial)
		}
	}
}

// open implements the connecting of a host.
func (s *fickleServer) open(context.Context) (wire.Conn, error) {
	ours, theirs := net.Pipe()
	s.serving.Go(func() { s.serve(theirs) }) // exits when either side closes
	return wire.NewLineConn(ours, ours, nil), nil
}

func (s *fickleServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	lines := wire.NewLineConn(conn, conn, nil)
	for {
		raw, err := lines.ReadMessage()
		if err != nil {
			return
		}
		msg, err := wire.Parse(raw, wire.Limits{})
		if err != nil || msg.Kind != wire.KindRequest {
			continue
		}
		said, goOn := s.answer(&msg)
		for _, line := range said {
			if _, err := conn.Write([]byte(line + "\n")); err != nil {
				return
			}
		}
		if !goOn {
			return
		}
	}
}

func (s *fickleServer) answer(msg *wire.Message) (lines []string, goOn bool) {
	result := func(text string) []string {
		return []string{`{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"result":` + text + `}`}
	}
	switch msg.Method {
	case wire.MethodInitialize:
		return result(hello), true
	case interceptor.MethodList:
		return result(`{"interceptors":[{"name":"fickle/v","type":"validation","hooks":[{"events":["tools/call"],"phase":"both"}]}]}`), true
	case interceptor.MethodInvoke:
	default:
		return []string{`{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"error":{"code":-32601,"message":"no"}}`}, true
	}
	s.mu.Lock()
	f := s.mind
	s.mu.Unlock()
	switch {
	case f.crash:
		return nil, false
	case f.hang:
		return nil, true
	case f.error != "":
		return []string{`{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"error":` + f.error + `}`}, true
	case f.result != "":
		return result(f.result), true
	case f.lines != nil:
		for _, line := range f.lines {
			lines = append(lines, strings.ReplaceAll(line, "ID", string(msg.ID)))
		}
		return lines, true
	}
	return result(`{"valid":true}`), true
}
