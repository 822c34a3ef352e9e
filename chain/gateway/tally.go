package gateway

import "sync"

// tally counts goroutines. Unlike a sync.WaitGroup it may be waited on while more are started: the wait ends at a moment
// when none runs. Its zero value is ready.
type tally struct {
	mu   sync.Mutex // covers the fields below
	n    int
	idle chan struct{} // closed when n comes to 0; nil while nobody waits
}

// Go runs do in a goroutine that counts until do returns.
func (t *tally) Go(do func()) {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
	go func() {
		defer t.done()
		do()
	}()
}

func (t *tally) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Wait returns at a moment when none runs.
func (t *tally) Wait() {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	<-idle
}
