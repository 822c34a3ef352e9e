package retry

import (
	"errors"
	"time"
)

// Permanent marks err as one that the same call will always meet again, so that [Do] stops. It returns nil for nil.
// The mark keeps the message and the chain: errors.Is and errors.As look through it.
func Permanent(err error) error {
	if err == nil || IsPermanent(err) {
		return err
	}
	return &permanentError{err: err}
}

// IsPermanent reports whether err, or an error that it wraps, was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

// After asks [Do] to pause for at least d before the next try, for a peer that named its own delay (Retry-After).
// It returns nil for nil; a negative d counts as zero.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &afterError{err: err, delay: max(d, 0)}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type afterError struct {
	err   error
	delay time.Duration
}

func (e *afterError) Error() string { return e.err.Error() }
func (e *afterError) Unwrap() error { return e.err }

// wanted returns the pause that the peer asked for, zero if none.
func wanted(err error) time.Duration {
	if after, ok := errors.AsType[*afterError](err); ok {
		return after.delay
	}
	return 0
}
