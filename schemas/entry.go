package schemas

import "github.com/chaintrail/chaintrail/schemas/seal"

// Entry is one journaled record as bytes, on its way from a journal to the stream.
type Entry struct {
	Seq    uint64
	Hash   seal.Hash
	Kind   Kind
	Tenant string
	Sealed []byte // JSON of the event, as hashed
	Items  []EntryItem
}

// EntryItem is one open item of an [Entry].
type EntryItem struct {
	Header OpenHeader
	Data   []byte
}
