package gateway

import "sync"

// sequencer keeps the write order of one direction without letting a slow chain hold up the rest: a
// message that no interceptor is due for never overtakes an earlier such message; one that goes
// through a chain takes its place when it is ready, behind what was read before it and had no chain.
type sequencer struct {
	mu   sync.Mutex // guards last
	last chan struct{}
}

// place is a message's position. It MUST be released, written or not.
type place struct {
	before <-chan struct{} // nil: nothing is before
	mine   chan struct{}   // nil: later messages do not wait
	once   sync.Once
}

func (s *sequencer) take(chained bool) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &place{before: s.last}
	if !chained {
		p.mine = make(chan struct{})
		s.last = p.mine
	}
	return p
}

// wait returns when everything that goes first was written or dropped.
func (p *place) wait() {
	if p.before != nil {
		<-p.before
	}
}

// release lets those behind go on. A place that was not waited for stays behind the ones before it.
func (p *place) release() {
	p.once.Do(func() {
		if p.mine == nil {
			return
		}
		if p.before != nil {
			<-p.before
		}
		close(p.mine)
	})
}
