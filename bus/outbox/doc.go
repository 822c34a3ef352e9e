// Package outbox is the durable journal between the request path and the stream.
//
// One [Outbox] is one writer: it numbers its events 1, 2, 3 … without a gap, chains each to the one
// before by hash, and appends them with the open items beside them to segment files on local disk.
// Numbering never resumes: a new start is a new writer in a folder of its own.
//
//	<dir>/<writer>/lock                  flock, held while the writer lives
//	               adopt.lock            flock, held by who publishes the journal of a dead writer
//	               00000000000000000001  segment, named by the seq of its first event
//	               shed                  what was never journaled: counted here, declared by a gap event
//	               published             how far the publisher came; a hint, the stream knows better
//	               adopted               who declares this writer dead, and whether it is done
//	<dir>/last-<tenant>                  last event of the newest writer whose folder is gone
//
// # Segment
//
// A segment is a sequence of frames: a header, the exchanges open at that point, then groups. A group
// is the items of one event, then the event; the event's frame is what commits the group. Events
// flagged "more follows" commit only with the first one that is not, so that several can be all or
// nothing. What stands after the last commit of the last segment is a torn tail: it was never
// acknowledged to anyone and is ignored, never repaired. In an earlier segment events end where the
// next segment begins.
//
// The checksum of a frame is keyed by a number drawn per writer, so that no payload can hold what
// looks like a frame.
//
// # Failure behaviour
//
// A failed write is cut off again (or the segment is given up) and fails that Record only. A failed
// fdatasync stops the outbox for good with [ErrBroken], because the kernel may have dropped the pages:
// the journal is then adopted by the next start like that of a dead process. The journal is bounded,
// see [Config.MaxBytes] and [Config.OnFull].
//
// # Adoption
//
// A gap event that an adopter writes for what a dead writer shed names that writer in Life.Subject.
//
// An [Adopter] finds journals whose writer is dead, serves them to a publisher to their end, and
// declares the death in its own chain, see [Adopter].
package outbox
