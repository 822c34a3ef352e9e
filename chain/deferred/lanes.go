package deferred

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// lanes work on jobs of one lane in order and on lanes side by side. The number of jobs in hand and
// of jobs at work is bounded.
type lanes struct {
	do      func(context.Context, Job)
	pending *semaphore.Weighted // a place for every job in hand
	working *semaphore.Weighted
	running sync.WaitGroup

	mu     sync.Mutex // covers what follows
	queues map[string][]Job
	held   map[uint64]Job
	next   uint64
}

func newLanes(parallel, pending int, do func(context.Context, Job)) *lanes {
	return &lanes{
		do: do, pending: semaphore.NewWeighted(int64(pending)), working: semaphore.NewWeighted(int64(parallel)),
		queues: map[string][]Job{}, held: map[uint64]Job{},
	}
}

// room waits for a place in hand, and takes it.
func (l *lanes) room(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.pending.Acquire(ctx, 1)
}

// release gives a place back that no job was put into.
func (l *lanes) release() { l.pending.Release(1) }

// put queues a job in its lane. The caller has taken a place for it.
func (l *lanes) put(ctx context.Context, lane string, job Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, active := l.queues[lane]
	l.queues[lane] = append(queue, job)
	if !active {
		l.running.Go(func() { l.drain(ctx, lane) }) // exits when the lane is empty
	}
}

// drain works on a lane until it is empty.
func (l *lanes) drain(ctx context.Context, lane string) {
	for {
		l.mu.Lock()
		queue := l.queues[lane]
		if len(queue) == 0 {
			delete(l.queues, lane)
			l.mu.Unlock()
			return
		}
		job := queue[0]
		queue[0] = Job{}
		l.queues[lane] = queue[1:]
		l.next++
		id := l.next
		l.held[id] = job
		l.mu.Unlock()
		// At the end of ctx the job still goes through do, which gives it back.
		acquired := l.working.Acquire(ctx, 1) == nil
		l.do(ctx, job)
		if acquired {
			l.working.Release(1)
		}
		l.mu.Lock()
		delete(l.held, id)
		l.mu.Unlock()
		l.pending.Release(1)
	}
}

func (l *lanes) wait() { l.running.Wait() }

// keepAlive tells the source every so often that the jobs in hand are being worked on.
func (l *lanes) keepAlive(ctx context.Context, every time.Duration, failed func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, job := range l.inHand() {
			if err := job.InProgress(); err != nil {
				failed(err)
				break // the others will fare no better
			}
		}
	}
}

func (l *lanes) inHand() []Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	var jobs []Job
	for _, job := range l.held {
		jobs = append(jobs, job)
	}
	for _, queue := range l.queues {
		jobs = append(jobs, queue...)
	}
	return jobs
}
