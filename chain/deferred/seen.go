package deferred

import "sync"

// seen remembers the last ids given to it, up to a bound.
type seen struct {
	mu   sync.Mutex // covers all
	ids  map[string]struct{}
	ring []string
	at   int
}

func newSeen(bound int) *seen {
	return &seen{ids: make(map[string]struct{}), ring: make([]string, bound)}
}

func (s *seen) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

func (s *seen) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[id]; ok {
		return
	}
	delete(s.ids, s.ring[s.at])
	s.ring[s.at] = id
	s.at = (s.at + 1) % len(s.ring)
	s.ids[id] = struct{}{}
}
