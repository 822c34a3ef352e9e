package sinks

import (
	"testing"
	"testing/synctest"
	"time"
)

// A batch waits for more as long as the stream has more, and no longer than the linger time else.
func TestBatchesBehindABacklogAreFull(t *testing.T) {
	t.Parallel()
	const linger, every = 250 * time.Millisecond, 200 * time.Millisecond
	for name, test := range map[string]struct {
		reads int
		full  bool // each of them
		ends  bool // reading, after them
		want  int
		took  time.Duration
	}{
		"backlog":       {reads: 4, full: true, want: 50, took: 4 * every},
		"no more":       {reads: 1, want: 20, took: linger},
		"its very end":  {reads: 2, full: true, want: 30, took: 2*every + linger},
		"reading ended": {reads: 1, full: true, ends: true, want: 20, took: every},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				w := &mover{p: &Pipeline{opts: Options{Linger: linger}}, limits: limits{messages: 50, bytes: 1}, begun: begun}
				chunks, stop := make(chan chunk), make(chan struct{})
				go func() { // exits when the last one is sent, or stop is closed
					defer close(chunks)
					tick := time.NewTicker(every)
					defer tick.Stop()
					for range test.reads {
						select {
						case <-tick.C:
							chunks <- chunk{entries: make([]Entry, 10), full: test.full}
						case <-stop:
							return
						}
					}
					if !test.ends {
						<-stop
					}
				}()
				got := w.gather(t.Context(), make([]Entry, 10), chunks)
				if took := time.Since(begun); len(got) != test.want || took != test.took {
					t.Errorf("a batch of %d after %v, want %d after %v", len(got), took, test.want, test.took)
				}
				close(stop)
				for range chunks { // until the reader has ended
				}
			})
		})
	}
}
