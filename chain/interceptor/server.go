package interceptor

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Methods of SEP-2624; both spellings of each are answered.
const (
	MethodList   = "interceptors/list"
	MethodInvoke = "interceptor/invoke"
	listAlias    = "interceptor/list"
	invokeAlias  = "interceptors/invoke"
)

// ExtensionName is the capability under which a server says that it has interceptors.
const ExtensionName = "io.modelcontextprotocol/interceptors"

// DefaultMaxConcurrent bounds the handlers that run at once.
const DefaultMaxConcurrent = 1024

// Options configure a [Server]; nil is allowed.
type Options struct {
	Name, Version string // of the server; empty means chaintrail-interceptors, dev
	Instructions  string
	MaxConcurrent int           // handlers at once, hung ones included; more are refused. 0 means DefaultMaxConcurrent
	Timeout       time.Duration // of calls that name none; 0 means none
	MaxMessage    int           // bytes of a message; 0 means wire.DefaultMaxMessage
	PageSize      int           // descriptors on one page of interceptors/list; 0 means all on one
	// SinksAsValidators advertises sinks as validation in audit mode that fails open, for hosts that
	// know two types only.
	SinksAsValidators bool
	Logger            *slog.Logger // nil means slog.Default; never gets payloads
}

// Server answers for a fixed set of interceptors. All methods are concurrent.
type Server struct {
	opts   Options
	order  []*entry
	byName map[string]*entry
	slots  chan struct{}
	events jsonx.Value // supportedEvents, an array

	running sync.WaitGroup // handlers
	flights sync.Pool      // of *flight
}

// New makes a server. It fails for descriptors that the specification does not allow, and for names
// that occur twice.
func New(opts *Options, interceptors ...Interceptor) (*Server, error) {
	s := &Server{byName: map[string]*entry{}}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Name == "" {
		s.opts.Name, s.opts.Version = "chaintrail-interceptors", "dev"
	}
	if s.opts.MaxConcurrent <= 0 {
		s.opts.MaxConcurrent = DefaultMaxConcurrent
	}
	if s.opts.MaxMessage <= 0 {
		s.opts.MaxMessage = wire.DefaultMaxMessage
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	s.slots = make(chan struct{}, s.opts.MaxConcurrent)
	s.flights.New = func() any { return &flight{done: make(chan struct{}, 1)} }
	var events []string
	for _, i := range interceptors {
		e, err := newEntry(i, s.opts.SinksAsValidators)
		if err != nil {
			return nil, err
		}
		if s.byName[e.Descriptor.Name] != nil {
			return nil, fmt.Errorf("interceptor %q: %w: the name is taken", e.Descriptor.Name, ErrDescriptor)
		}
		s.order, s.byName[e.Descriptor.Name] = append(s.order, e), e
		for _, h := range e.Descriptor.Hooks {
			events = append(events, h.Events...)
		}
	}
	s.events = eventList(events)
	return s, nil
}

func eventList(events []string) jsonx.Value {
	seen := map[string]bool{}
	list := []byte{'['}
	for _, e := range events {
		if seen[e] {
			continue
		}
		if seen[e] = true; len(list) > 1 {
			list = append(list, ',')
		}
		list = appendQuoted(list, e)
	}
	return append(list, ']')
}

// Descriptors lists what is served, in the order of New.
func (s *Server) Descriptors() []Descriptor {
	list := make([]Descriptor, len(s.order))
	for i, e := range s.order {
		list[i] = e.Descriptor
	}
	return list
}

// Invoke answers interceptor/invoke: params and result are the same bytes as over the wire. params
// MUST be grammatical. The error is a *[wire.RPCError], or the cause of ctx when that ended first.
func (s *Server) Invoke(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
	call, fault := parseCall(params)
	if fault != "" {
		return nil, badParams(fault)
	}
	return s.invoke(ctx, call)
}

// InvokeCall is [Server.Invoke] for a caller in this process, without the encoding of the params: call holds what they
// would hold, and belongs to the handler from then on.
func (s *Server) InvokeCall(ctx context.Context, call *Call) (jsonx.Value, error) {
	if fault := call.complete(); fault != "" {
		return nil, badParams(fault)
	}
	return s.invoke(ctx, call)
}

func (s *Server) invoke(ctx context.Context, call *Call) (jsonx.Value, error) {
	f, refusal := s.admit(call)
	if refusal != nil {
		return nil, refusal
	}
	limited, cancel := f.limited(ctx)
	defer cancel()
	if limited.Done() != nil {
		s.running.Add(1)
		go f.fly(limited) // exits when the handler returns; Wait waits for it
		select {
		case <-f.done:
		case <-limited.Done():
			return nil, f.failure(ctx, context.Cause(limited)) // f is the handler's until it returns
		}
	} else {
		f.run(limited)
	}
	result, err := f.answer(ctx, limited)
	s.release(f)
	return result, err
}

// Wait returns when no handler runs any more, or with the cause of ctx. Call it when all ways of
// serving have ended.
func (s *Server) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); s.running.Wait() }() // exits when the last handler returns
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
