package interceptor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

var errTimeout = errors.New("timeout")

// fastHandler is how long a handler may take that is run where its call was read.
const fastHandler = 100 * time.Microsecond

// flight is one invocation, from a slot of the server to its result. It is used again, unless nobody waited for its
// handler to return.
type flight struct {
	server *Server
	entry  *entry
	call   *Call
	limit  time.Duration // 0: none
	start  time.Time
	out    outcome
	err    error
	done   chan struct{} // has room for its one token
}

// admit takes a slot for a call that an interceptor is there for.
func (s *Server) admit(call *Call) (*flight, *wire.RPCError) {
	e := s.byName[call.Name]
	if e == nil {
		return nil, unknownInterceptor(call.Name)
	}
	if !e.Descriptor.hooked(call.Event, call.Phase) {
		return nil, notHooked(&e.Descriptor, call)
	}
	if refusal := e.configure(call); refusal != nil {
		return nil, refusal
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, handlerFailed(&e.Descriptor, call.Phase, errBusy)
	}
	f := s.flights.Get().(*flight)
	f.server, f.entry, f.call, f.start = s, e, call, time.Now()
	if f.limit = time.Duration(call.Timeout) * time.Millisecond; f.limit == 0 {
		f.limit = s.opts.Timeout
	}
	return f, nil
}

// admitRequest is admit for a request as it came. It returns nothing for any other method, and where there is something
// wrong that [Server.Handle] will say.
func (s *Server) admitRequest(method string, params jsonx.Value) (*flight, *wire.RPCError) {
	if method != MethodInvoke && method != invokeAlias {
		return nil, nil
	}
	call, fault := parseCall(params)
	if fault != "" || (call.version != "" && !slices.Contains(wire.Versions(), call.version)) {
		return nil, nil
	}
	return s.admit(call)
}

// release ends the use of a flight whose handler has returned.
func (s *Server) release(f *flight) {
	*f = flight{done: f.done}
	s.flights.Put(f)
}

// limited returns the context of the handler: it ends with ctx or the limit, whichever is first.
func (f *flight) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if sooner, ok := ctx.Deadline(); f.limit <= 0 || (ok && time.Until(sooner) <= f.limit) {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, f.limit, errTimeout)
}

// fly runs the handler on a goroutine of its own.
func (f *flight) fly(ctx context.Context) {
	defer f.server.running.Done()
	f.run(ctx)
	f.done <- struct{}{}
}

// run calls the handler, turns a panic into an error, and gives the slot back.
func (f *flight) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil { // the value may hold payload: only its type is told
			f.server.opts.Logger.ErrorContext(ctx, "interceptor panicked",
				slog.String("interceptor", f.entry.Descriptor.Name), slog.String("type", fmt.Sprintf("%T", p)),
				slog.String("stack", string(bytes.TrimSpace(debug.Stack()))))
			f.err = errPanic
		}
		<-f.server.slots
	}()
	f.err = f.entry.run(ctx, f.call, &f.out)
	f.entry.fast.Store(time.Since(f.start) < fastHandler)
}

// answer makes the result of what the handler said.
func (f *flight) answer(ctx, limited context.Context) (jsonx.Value, error) {
	if f.err != nil {
		if errors.Is(context.Cause(limited), errTimeout) {
			return nil, f.failure(ctx, errTimeout) // the handler gave up because of the limit
		}
		return nil, f.failure(ctx, f.err)
	}
	out, d := &f.out, &f.entry.Descriptor
	if out.modified {
		if err := checkPayload(out.payload); err != nil {
			return nil, handlerFailed(d, f.call.Phase, err)
		}
		out.payload = f.call.wrap(out.payload)
	} else if f.call.envelope != nil {
		out.payload = f.call.envelope
	}
	dst := make([]byte, 0, 192+len(out.payload))
	result, err := appendResult(dst, d, f.entry.as, f.call, out, time.Since(f.start).Milliseconds())
	if err != nil {
		return nil, handlerFailed(d, f.call.Phase, err)
	}
	return result, nil
}

// failure is the error of an invocation without a result.
func (f *flight) failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errTimeout):
		return timedOut(&f.entry.Descriptor, f.call, f.limit.Milliseconds())
	default:
		return handlerFailed(&f.entry.Descriptor, f.call.Phase, err)
	}
}

// checkPayload refuses a mutated payload that a strict reader would not take.
func checkPayload(payload jsonx.Value) error {
	traits, err := jsonx.Verify(payload, 0)
	if err != nil || traits.Duplicates || traits.InvalidUTF8 {
		return errors.New("mutated payload is not valid JSON")
	}
	return nil
}
