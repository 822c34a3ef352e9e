package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Recorder writes down what interceptors are asked and what they answer, one invocation a line, for [Run] to replay. All
// methods are concurrent. A recording holds payloads: keep it where those may lie.
type Recorder struct {
	mu  sync.Mutex // covers what follows
	out io.Writer
	err error
}

// recorded is one line.
type recorded struct {
	Params jsonx.Value `json:"params"`
	Result jsonx.Value `json:"result,omitempty"`
	Error  *refusal    `json:"error,omitempty"`
}

type refusal struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Data    jsonx.Value `json:"data,omitempty"`
}

// refusalOf returns nil for what is not an error answer.
func refusalOf(err error) *refusal {
	rpc, answered := errors.AsType[*wire.RPCError](err)
	if !answered {
		return nil
	}
	return &refusal{rpc.Code, rpc.Message, rpc.Data}
}

// NewRecorder makes a recorder that writes to out, one line in one Write.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// Connect returns a function for Connect of [chain.HostSpec] that connects as connect does, and records what goes over the
// connection. Invocations without an answer, because the connection broke or the caller gave up, are left out.
func (r *Recorder) Connect(connect func(ctx context.Context) (chain.Conn, error)) func(ctx context.Context) (chain.Conn, error) {
	return func(ctx context.Context) (chain.Conn, error) {
		conn, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		return &tapped{conn, r}, nil
	}
}

// Err returns why the recording is not whole; nil while it is. After a failed write nothing more is written.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// tapped is a connection with a recorder.
type tapped struct {
	chain.Conn
	recorder *Recorder
}

// Server is what the connection tells of its server; nil: nothing.
func (c *tapped) Server() *wire.Server {
	if told, ok := c.Conn.(interface{ Server() *wire.Server }); ok {
		return told.Server()
	}
	return nil
}

// Call implements [chain.Caller].
func (c *tapped) Call(ctx context.Context, method string, params jsonx.Value) (jsonx.Value, error) {
	result, err := c.Conn.Call(ctx, method, params)
	if method == interceptor.MethodInvoke || method == "interceptors/invoke" {
		c.recorder.take(params, result, err)
	}
	return result, err
}

func (r *Recorder) take(params, result jsonx.Value, err error) {
	entry := recorded{Params: params, Result: result}
	if err != nil {
		if entry.Result, entry.Error = nil, refusalOf(err); entry.Error == nil {
			return
		}
	}
	text, err := jsonx.Marshal(&entry)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	if err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	if err != nil {
		r.err = fmt.Errorf("record invocation: %w", err)
	}
}

// readRecording takes the invocations of the interceptor of that name.
func (s *suite) readRecording(data []byte, name string) error {
	n := 0
	for text := range bytes.Lines(data) {
		n++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var entry recorded
		if err := jsonx.UnmarshalStrict(text, &entry); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if of, _ := wire.MemberString(entry.Params, "name"); of != name {
			continue
		}
		want, err := describe(entry.Params, entry.Result, entry.Error)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		s.steps = append(s.steps, step{params: entry.Params, want: &want})
	}
	return nil
}
