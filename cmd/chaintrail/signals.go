package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chaintrail/chaintrail/internal/lifecycle"
)

// secondSignal returns a context that outlives ctx and ends on a signal after the one that ended ctx.
func secondSignal(ctx context.Context) (context.Context, func()) {
	now, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() { // exits when the returned function is called
		for {
			select {
			case <-signals:
				if first := ctx.Err() == nil; !first {
					cancel(lifecycle.ErrNow)
				}
			case <-done:
				return
			}
		}
	}()
	return now, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
