package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas"
)

// Defaults of a [Set].
const (
	DefaultRefresh   = 30 * time.Second
	DefaultListLimit = 20 * time.Second
)

// SetOptions are what a [Set] is made of.
type SetOptions struct {
	Config
	Hosts     []HostSpec
	Refresh   time.Duration // how often servers are listed again; 0 means DefaultRefresh
	ListLimit time.Duration // of one connection and listing; 0 means DefaultListLimit
	Retry     retry.Policy  // of reconnecting; Notify is not used
	Logger    *slog.Logger  // nil: discard
	// OnPlan is called, one call at a time, with each plan before it comes into force. An error keeps the plan that is
	// in force, and at start fails Start: what is not recorded must not decide. The next listing tries again. It may
	// be nil.
	OnPlan func(ctx context.Context, plan *Plan) error
}

// Set keeps interceptor servers connected and the plan in step with what they list.
//
// Failure behaviour: a server that cannot be listed at start blocks the start. Later, the interceptors of a lost server
// stay in the plan and their invocations fail at once, so that each blocks or passes by its failOpen; the server is
// connected again with growing pauses. A listing that cannot be put in force leaves the plan as it is.
type Set struct {
	opts SetOptions
	log  *slog.Logger
	plan atomic.Pointer[Plan]

	changing sync.Mutex // held while a server is added or removed

	mu       sync.Mutex  // covers the rest, and is held while OnPlan runs
	hosts    []*host     //
	listings []listed    // by host
	spawn    func(*host) // has a server kept; nil while Run does not run
}

// NewSet checks the configuration. Nothing is connected until Start.
func NewSet(opts SetOptions) (*Set, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Refresh <= 0 {
		opts.Refresh = DefaultRefresh
	}
	if opts.ListLimit <= 0 {
		opts.ListLimit = DefaultListLimit
	}
	s := &Set{opts: opts, log: opts.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range opts.Hosts {
		h, err := s.newHost(&s.opts.Hosts[i])
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, h)
		s.listings = append(s.listings, listed{config: &h.spec.HostConfig, caller: h})
	}
	return s, nil
}

// newHost checks the configuration of one more server.
func (s *Set) newHost(spec *HostSpec) (*host, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	name := spec.Ref.Host
	for _, other := range s.hosts {
		if other.spec.Ref.Host == name {
			return nil, fmt.Errorf("%w: two interceptor servers are named %q", ErrConfig, name)
		}
	}
	return &host{
		spec: spec, limit: s.opts.ListLimit, policy: s.opts.Retry, doubt: make(chan struct{}, 1),
		log: s.log.With(slog.String("host", name)),
	}, nil
}

// Start connects and lists every server and puts the first plan in force. When it fails, nothing stays connected; the
// error names each server and the reason. It is called once, before Run.
func (s *Set) Start(ctx context.Context) error {
	failures := make([]error, len(s.hosts))
	var all sync.WaitGroup
	for i, h := range s.hosts {
		all.Go(func() { // exits within the limit of a listing
			s.listings[i].entries, s.listings[i].notes, failures[i] = h.open(ctx)
		})
	}
	all.Wait()
	err := errors.Join(failures...)
	if err == nil {
		s.mu.Lock()
		err = s.rebuild(ctx)
		s.mu.Unlock()
	}
	if err != nil {
		s.close()
	}
	return err
}

// Run keeps servers and plan up to date until ctx is done, then closes the connections. Messages that still run then
// fail; drain them first.
func (s *Set) Run(ctx context.Context) error {
	var all sync.WaitGroup
	s.mu.Lock()
	s.spawn = func(h *host) {
		own, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		h.stop = func() {
			stop()
			<-done
		}
		all.Go(func() { // exits with ctx, or when the server is removed
			defer close(done)
			h.keep(own, s.opts.Refresh, func(h *host, entries []schemas.PlanEntry, notes []schemas.PlanNote) {
				s.update(own, h, entries, notes)
			})
		})
	}
	for _, h := range s.hosts {
		s.spawn(h)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.spawn = nil
	s.mu.Unlock()
	all.Wait()
	s.close()
	return nil
}

// Current returns the plan in force; nil before Start.
func (s *Set) Current() *Plan { return s.plan.Load() }

func (s *Set) close() {
	s.mu.Lock()
	hosts := slices.Clone(s.hosts)
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, h := range hosts {
		all.Go(h.lose) // a child process may take its time to end
	}
	all.Wait()
}
