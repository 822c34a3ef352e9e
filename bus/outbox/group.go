package outbox

import (
	"encoding/binary"
	"fmt"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// A group is the frames of one event's items, then that of the event.
//
//	event payload                          item payload
//	 0  8  seq                             0   4  index
//	 8  8  time                            4   4  part
//	16 16  id                              8   4  parts
//	32 16  exchange, zero if none          12 32  salt
//	48  4  number of items                 44     role, keep, of: each one byte of length, then bytes
//	52 32  hash                                   data
//	84     kind: one byte of length, then bytes
//	       sealed bytes
const (
	eventFixed = 84
	itemFixed  = 44
	hashAt     = 52
)

// eventFrame is the payload of an event's frame.
type eventFrame struct {
	seq      uint64
	time     schemas.Time
	id       uuid.UUID
	exchange uuid.UUID
	items    int
	hash     seal.Hash
	kind     schemas.Kind
	sealed   []byte
}

// appendEventPrefix appends all of an event's payload that stands before the sealed bytes; the hash
// is filled in by sealEvent.
func appendEventPrefix(b []byte, e *schemas.Event, items int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, e.Seq)
	b = le.AppendUint64(b, uint64(e.Time)) //nolint:gosec // same bits
	b = append(b, e.ID[:]...)
	var exchange uuid.UUID
	if e.Correlation != nil {
		exchange = e.Correlation.Exchange
	}
	b = append(b, exchange[:]...)
	b = le.AppendUint32(b, uint32(items)) //nolint:gosec // bounded by memory
	b = append(b, make([]byte, len(seal.Hash{}))...)
	return appendShort(b, string(e.Kind))
}

func decodeEvent(p []byte) (eventFrame, error) {
	var e eventFrame
	if len(p) < eventFixed {
		return e, fmt.Errorf("%w: event of %d bytes", ErrCorrupt, len(p))
	}
	le := binary.LittleEndian
	e.seq = le.Uint64(p)
	e.time = schemas.Time(le.Uint64(p[8:])) //nolint:gosec // same bits
	copy(e.id[:], p[16:])
	copy(e.exchange[:], p[32:])
	e.items = int(le.Uint32(p[48:]))
	copy(e.hash[:], p[hashAt:])
	kind, rest, ok := cutShort(p[eventFixed:])
	if !ok {
		return e, fmt.Errorf("%w: event %d ends in its kind", ErrCorrupt, e.seq)
	}
	e.kind, e.sealed = intern(kind, schemas.KindRequest, schemas.KindOutcome, schemas.KindInvocation), rest
	return e, nil
}

// appendItemPrefix appends all of an item's payload that stands before its data.
func appendItemPrefix(b []byte, h *schemas.OpenHeader) ([]byte, error) {
	for _, s := range []string{string(h.Role), string(h.Keep), h.Of} {
		if len(s) > 255 {
			return b, fmt.Errorf("item %.40s: role, keep and of have at most 255 bytes, got %d", h.Name(), len(s))
		}
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(h.Index)) //nolint:gosec // small numbers
	b = le.AppendUint32(b, uint32(h.Part))  //nolint:gosec // small numbers
	b = le.AppendUint32(b, uint32(h.Parts)) //nolint:gosec // small numbers
	b = append(b, h.Salt[:]...)
	b = appendShort(b, string(h.Role))
	b = appendShort(b, string(h.Keep))
	return appendShort(b, h.Of), nil
}

// decodeItem leaves what stands in the event's frame to complete.
func decodeItem(p []byte) (schemas.EntryItem, error) {
	var it schemas.EntryItem
	if len(p) < itemFixed {
		return it, fmt.Errorf("%w: item of %d bytes", ErrCorrupt, len(p))
	}
	le := binary.LittleEndian
	it.Header.Index = int(int32(le.Uint32(p)))     //nolint:gosec // as written
	it.Header.Part = int(int32(le.Uint32(p[4:])))  //nolint:gosec // as written
	it.Header.Parts = int(int32(le.Uint32(p[8:]))) //nolint:gosec // as written
	copy(it.Header.Salt[:], p[12:])
	role, p, ok1 := cutShort(p[itemFixed:])
	keep, p, ok2 := cutShort(p)
	of, p, ok3 := cutShort(p)
	if !ok1 || !ok2 || !ok3 {
		return it, fmt.Errorf("%w: item ends in its header", ErrCorrupt)
	}
	it.Header.Role = intern(role, schemas.RoleContext, schemas.RoleBefore, schemas.RoleAfter, schemas.RoleDetail)
	it.Header.Keep = intern(keep, schemas.KeepRedacted, schemas.KeepFull, schemas.KeepDigest, schemas.KeepNone)
	it.Header.Of = string(of)
	it.Data = p
	return it, nil
}

// entry joins an event with its items.
func (e *eventFrame) entry(writer uuid.UUID, tenant string, items []schemas.EntryItem) schemas.Entry {
	for i := range items {
		h := &items[i].Header
		h.Event, h.Exchange, h.Tenant, h.Writer = e.id, e.exchange, tenant, writer
		h.Seq, h.Time, h.Kind = e.seq, e.time, e.kind
	}
	return schemas.Entry{Seq: e.seq, Hash: e.hash, Kind: e.kind, Tenant: tenant, Sealed: e.sealed, Items: items}
}

func appendShort(b []byte, s string) []byte {
	b = append(b, byte(len(s))) //nolint:gosec // checked by who calls
	return append(b, s...)
}

func cutShort(p []byte) (s, rest []byte, ok bool) {
	if len(p) == 0 || len(p)-1 < int(p[0]) {
		return nil, nil, false
	}
	return p[1 : 1+int(p[0])], p[1+int(p[0]):], true
}

// intern spares an allocation for the values that are met all the time.
func intern[S ~string](b []byte, known ...S) S {
	for _, k := range known {
		if string(b) == string(k) {
			return k
		}
	}
	return S(b)
}
