// Package schemas defines what chaintrail records: the sealed [Event], the [OpenItem] beside it,
// and the [Record] that carries both from the request path to the journal.
//
// A sealed event is hashed, chained and proven. It holds only closed enumerations, sizes, times,
// our own ids, names from configuration, pseudonyms and commitments. Everything that came from
// outside, or that may have to be erased one day, is an open item: it lies beside the event, is
// committed to by the event, and can be removed without breaking any proof.
//
// The package is a leaf: it imports nothing of chaintrail but its own sub-packages.
package schemas
