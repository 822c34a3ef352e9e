package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chaintrail/chaintrail/internal/lifecycle"
)

// secondSignal returns a context that outlives ctx and ends on the first signal after ctx has ended.
func secondSignal(ctx context.Context) (context.Context, func()) {
	now, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // exits when the returned function is called
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		// Not before: the signal that ended ctx must not count as the second one too.
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			cancel(lifecycle.ErrNow)
		case <-done:
		}
	}()
	return now, func() {
		close(done)
		cancel(nil)
	}
}
