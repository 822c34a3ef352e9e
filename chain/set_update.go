package chain

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/chaintrail/chaintrail/schemas"
)

// Add connects and lists one more server, behind those that there are, and puts the plan with it in force. When it
// fails, nothing has changed. It is called after Start; before Run, or while Run runs.
func (s *Set) Add(ctx context.Context, spec HostSpec) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	h, err := s.newHost(&spec)
	if err != nil {
		return err
	}
	entries, notes, err := h.open(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hosts, listings := s.hosts, s.listings
	s.hosts = append(slices.Clone(hosts), h)
	s.listings = append(slices.Clone(listings), listed{config: &h.spec.HostConfig, caller: h, entries: entries, notes: notes})
	if err := s.rebuild(ctx); err != nil {
		s.hosts, s.listings = hosts, listings
		h.lose()
		return err
	}
	if s.spawn != nil {
		s.spawn(h)
	}
	return nil
}

// Remove puts the plan without a server in force and closes the connection to it. Messages that run with an earlier
// plan still meet its interceptors, as those of a lost server. When it fails, nothing has changed.
func (s *Set) Remove(ctx context.Context, name string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	h, stop, err := s.takeOut(ctx, name)
	if err != nil {
		return err
	}
	if stop != nil {
		stop()
	}
	h.lose()
	return nil
}

func (s *Set) takeOut(ctx context.Context, name string) (h *host, stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.hosts, func(h *host) bool { return h.spec.Ref.Host == name })
	if at < 0 {
		return nil, nil, fmt.Errorf("%w: no interceptor server is named %q", ErrConfig, name)
	}
	hosts, listings := s.hosts, s.listings
	s.hosts = slices.Delete(slices.Clone(hosts), at, at+1)
	s.listings = slices.Delete(slices.Clone(listings), at, at+1)
	if err := s.rebuild(ctx); err != nil {
		s.hosts, s.listings = hosts, listings
		return nil, nil, err
	}
	return hosts[at], hosts[at].stop, nil
}

// update takes over what a server lists.
func (s *Set) update(ctx context.Context, h *host, entries []schemas.PlanEntry, notes []schemas.PlanNote) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.hosts {
		if s.hosts[i] != h {
			continue
		}
		before := s.listings[i]
		s.listings[i].entries, s.listings[i].notes = entries, notes
		if err := s.rebuild(ctx); err != nil {
			s.listings[i] = before
			h.log.ErrorContext(ctx, "the listed interceptors are not put in force; the plan stays", slog.Any("error", err))
		}
	}
}

// rebuild puts a plan in force if it differs from the one that is.
func (s *Set) rebuild(ctx context.Context) error {
	next, err := newPlan(s.opts.Config, s.listings)
	if err != nil {
		return err
	}
	if next.same(s.plan.Load()) {
		return nil
	}
	for _, note := range next.record.Ignored {
		s.log.WarnContext(ctx, "interceptor is not in force",
			slog.String("host", note.Host), slog.String("interceptor", note.Name), slog.String("reason", note.Reason))
	}
	if s.opts.OnPlan != nil {
		if err := s.opts.OnPlan(ctx, next); err != nil {
			return fmt.Errorf("record plan: %w", err)
		}
	}
	s.plan.Store(next)
	s.log.InfoContext(ctx, "plan in force",
		slog.String("digest", next.record.Digest.String()), slog.Int("interceptors", len(next.members)))
	return nil
}
