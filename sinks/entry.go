package sinks

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Header names of stream messages that a decoder reads.
const (
	headerHash = "Chaintrail-Hash" // events: hash of the sealed bytes
	headerItem = "Chaintrail-Item" // open items: JSON of schemas.OpenHeader
)

// NoLeaf is the Leaf of an entry that is not a leaf of the Merkle tree.
const NoLeaf uint64 = math.MaxUint64

// Entry is one decoded message of a stream: a sealed event, or a part of an open item.
type Entry struct {
	Message
	Shard uint16
	Event *schemas.Event      // set on an event stream
	Item  *schemas.OpenHeader // set on an open stream
	// Hash is the event's hash; on an open stream a digest of header and data's checksum. It tells a repeated message from another
	// one in its place.
	Hash seal.Hash
	// Leaf counts first occurrences of (writer, seq) from the beginning of the stream, from 0; checkpoints have [NoLeaf].
	Leaf uint64
	// Transient marks what no sink may keep: snapshots for deferred work.
	Transient bool

	failure error // why it cannot be decoded
}

// Writer is the writer and the number of the event that the entry is or belongs to.
func (e *Entry) Writer() (uuid.UUID, uint64) {
	if e.Item != nil {
		return e.Item.Writer, e.Item.Seq
	}
	return e.Event.Writer, e.Event.Seq
}

// Part names the entry among those of its event: empty for the event itself, item name and part for an open item.
func (e *Entry) Part() string {
	if e.Item == nil {
		return ""
	}
	return e.Item.Name() + "/" + strconv.Itoa(e.Item.Part)
}

// Decoder turns a message into an entry. An error says that the message can never be decoded; Hash is set all the same.
// It MUST NOT panic on any message.
type Decoder func(Message) (Entry, error)

// DecodeEvent is the [Decoder] of event streams. It checks the hash in the header, if there is one.
func DecodeEvent(m Message) (Entry, error) {
	e := Entry{Message: m, Shard: shardOf(m.Subject), Hash: seal.Event(m.Data), Leaf: NoLeaf}
	if want := header(m, headerHash); want != "" && want != e.Hash.String() {
		return e, fmt.Errorf("header %s does not match the data", headerHash)
	}
	event, err := schemas.DecodeEvent(m.Data)
	if err != nil {
		return e, err
	}
	switch {
	case event.Schema != schemas.Version:
		return e, fmt.Errorf("schema must be %s", schemas.Version)
	case !knownKind(event.Kind):
		return e, errors.New("kind is not known")
	case event.Writer == uuid.Nil() || event.Seq == 0 || event.ID == uuid.Nil():
		return e, errors.New("id, writer and seq must be set")
	}
	e.Event = event
	return e, nil
}

// DecodeItem is the [Decoder] of open streams.
func DecodeItem(m Message) (Entry, error) {
	raw := header(m, headerItem)
	e := Entry{Message: m, Shard: shardOf(m.Subject), Leaf: NoLeaf, Hash: itemDigest(raw, m.Data)}
	if raw == "" {
		return e, fmt.Errorf("header %s is missing", headerItem)
	}
	item, err := schemas.DecodeOpenHeader(raw)
	if err != nil {
		return e, fmt.Errorf("header %s: %w", headerItem, err)
	}
	switch {
	case item.Writer == uuid.Nil() || item.Seq == 0 || item.Event == uuid.Nil():
		return e, errors.New("event, writer and seq must be set")
	case item.Part < 0 || item.Parts < 0 || item.Index < 0 || item.Part > 0 && item.Part >= item.Parts:
		return e, errors.New("index, part or parts is out of bounds")
	case item.Role == "":
		return e, errors.New("role must be set")
	}
	e.Item = item
	e.Transient = item.Role == schemas.RoleSnapshot
	return e, nil
}

// itemDigest tells an item's message from any other in its place. The header alone does, by its event, place and salt; of
// the data a checksum is enough, since the event has sealed what it may be.
func itemDigest(header string, data []byte) seal.Hash {
	b := make([]byte, 0, 512)
	b = append(b, header...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(data)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	return sha256.Sum256(b)
}

func header(m Message, name string) string {
	if v := m.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// shardOf reads the third token of a subject; 0 if there is none.
func shardOf(subject string) uint16 {
	for range 2 {
		_, rest, ok := strings.Cut(subject, ".")
		if !ok {
			return 0
		}
		subject = rest
	}
	token, _, _ := strings.Cut(subject, ".")
	n, err := strconv.ParseUint(token, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

func knownKind(kind schemas.Kind) bool {
	switch kind {
	case schemas.KindWriter, schemas.KindPlan, schemas.KindRequest, schemas.KindOutcome, schemas.KindInvocation,
		schemas.KindGap, schemas.KindAdmin, schemas.KindCheckpoint:
		return true
	default:
		return false
	}
}
