package outbox

import "errors"

var (
	// ErrFull is returned by Record when the journal has reached its bound and the event may not use
	// what is left. Nothing was recorded. The publisher must catch up, or the bound be raised.
	ErrFull = errors.New("journal is full")
	// ErrClosed is returned after Close has begun. Nothing was recorded.
	ErrClosed = errors.New("journal is closed")
	// ErrBroken is returned after the disk failed to sync: whether the record survives a power loss
	// is unknown. The outbox takes nothing more; restart the process after looking at the disk.
	ErrBroken = errors.New("journal is broken by a failed sync")
	// ErrReleased is returned by Read for events whose segment was deleted after they were stored and
	// sealed; the caller must resume from what the stream holds.
	ErrReleased = errors.New("events are already released from the journal")
	// ErrCorrupt is returned when a journal holds bytes that no crash leaves behind. What lies before
	// the named place is good.
	ErrCorrupt = errors.New("journal is corrupt")
	// ErrTooLarge is returned by Record when an event or item exceeds MaxSealed or MaxRecord. Nothing was recorded.
	ErrTooLarge = errors.New("record is too large for the journal")
)
