// Package lifecycle starts the parts of a process in order and stops them in the opposite one, each
// with its own deadline, so that what an earlier part accepted is drained by the later ones.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Part is one long-lived component.
type Part struct {
	Name string
	// Start returns when the part is ready for the next one. Its ctx ends only when the group
	// gives up: it is not the stop signal.
	Start func(ctx context.Context) error
	// Stop finishes what was accepted and releases what is held; when ctx ends it must give up.
	Stop func(ctx context.Context) error
	// Failed delivers the reason when the part ends by itself; nil when it cannot.
	Failed <-chan error
}

// ErrNow is the cause when a second signal, or a deadline, cuts a stop short.
var ErrNow = errors.New("stop at once")

// Group runs parts in the order of their start; parts stop in the opposite order.
type Group struct {
	Drain time.Duration // for each part; 0 means no limit
	Log   *slog.Logger

	started []Part
}

// Start starts p and remembers it for Stop. On an error p is not stopped; earlier parts still must be.
func (g *Group) Start(ctx context.Context, p Part) error {
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	g.started = append(g.started, p)
	g.Log.LogAttrs(ctx, slog.LevelDebug, "part started", slog.String("part", p.Name), slog.Duration("took", time.Since(began)))
	return nil
}

// Wait blocks until ctx ends (nil) or a part fails (its error).
func (g *Group) Wait(ctx context.Context) error {
	failed := make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	for _, p := range g.started {
		if p.Failed == nil {
			continue
		}
		go func() { // exits when the part fails or Wait returns
			select {
			case err := <-p.Failed:
				if err == nil {
					err = errors.New("ended by itself")
				}
				select {
				case failed <- fmt.Errorf("%s: %w", p.Name, err):
				default:
				}
			case <-done:
			}
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// Stop stops the parts in the opposite order of their start. When now ends, the rest is told to give up.
func (g *Group) Stop(now context.Context) error {
	var errs []error
	for _, p := range slices.Backward(g.started) {
		began := time.Now()
		if err := g.stop(now, p); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", p.Name, err))
		}
		g.Log.LogAttrs(now, slog.LevelDebug, "part stopped", slog.String("part", p.Name), slog.Duration("took", time.Since(began)))
	}
	g.started = nil
	return errors.Join(errs...)
}

func (g *Group) stop(now context.Context, p Part) error {
	if p.Stop == nil {
		return nil
	}
	ctx, cancel := now, context.CancelFunc(func() {})
	if g.Drain > 0 {
		ctx, cancel = context.WithTimeoutCause(now, g.Drain, fmt.Errorf("%w: drain took longer than %s", ErrNow, g.Drain))
	}
	defer cancel()
	return p.Stop(ctx)
}

// Background makes a Part of a blocking run function: it ends when its context ends.
func Background(name string, run func(ctx context.Context) error) Part {
	failed := make(chan error, 1)
	done := make(chan struct{})
	var cancel context.CancelFunc
	return Part{
		Name: name,
		Start: func(ctx context.Context) error {
			var runCtx context.Context
			runCtx, cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // G118: Stop calls it
			go func() {                                                     // exits when run returns
				defer close(done)
				err := run(runCtx)
				if runCtx.Err() == nil {
					failed <- err
				}
			}()
			return nil
		},
		Stop: func(ctx context.Context) error {
			cancel()
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		Failed: failed,
	}
}
