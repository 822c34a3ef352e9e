package verify

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// ProofFormat names the form of a [Proof].
const ProofFormat = "chaintrail.proof/v1"

// Bounds of a proof that comes from outside.
const (
	MaxProof       = 256 << 20 // bytes
	maxProofEvents = 10_000
)

// ErrProof is returned for a proof that cannot be read, or that does not prove what it says.
var ErrProof = errors.New("the proof does not hold")

// Proof shows events to somebody who has nothing but a public key: each is a leaf under one signed head.
type Proof struct {
	Format     string       `json:"format"`     // [ProofFormat]
	Checkpoint string       `json:"checkpoint"` // the head as it was signed (C2SP tlog-checkpoint)
	Keys       []string     `json:"keys"`       // ids of the public keys that signed it; the keys themselves come from elsewhere
	Events     []EventProof `json:"events"`
}

// EventProof shows one event.
type EventProof struct {
	Sealed    string      `json:"sealed"`          // the sealed bytes: UTF-8, byte for byte
	Leaf      uint64      `json:"leaf"`            // number of the leaf SHA-256(0x00 ‖ sealed bytes)
	Inclusion []seal.Hash `json:"inclusion"`       // RFC 6962 section 2.1.1, from the leaf to the root
	Items     []ItemProof `json:"items,omitempty"` // open items beside it, where asked for
}

// ItemProof shows an open item of an event.
type ItemProof struct {
	Name string    `json:"name"` // see schemas.ItemName
	Salt seal.Salt `json:"salt"`
	Kept []byte    `json:"kept"` // base64
}

// Proven is what a proof shows.
type Proven struct {
	Head   ledger.Checkpoint `json:"head"`
	Keys   []string          `json:"keys"` // ids of the keys that signed the head
	Events []*schemas.Event  `json:"events"`
	Items  int               `json:"items"` // open items that are what the events committed to
}

// ParseProof reads a proof; nothing is verified.
func ParseProof(text []byte) (*Proof, error) {
	if len(text) > MaxProof {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrProof, MaxProof)
	}
	var p Proof
	if err := jsonx.UnmarshalStrict(text, &p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	switch {
	case p.Format != ProofFormat:
		return nil, fmt.Errorf("%w: its format is %.50q, not %s", ErrProof, p.Format, ProofFormat)
	case len(p.Events) == 0 || len(p.Events) > maxProofEvents:
		return nil, fmt.Errorf("%w: it has %d events", ErrProof, len(p.Events))
	}
	return &p, nil
}

// Check verifies a proof with public keys that come from elsewhere. An error says what does not hold ([ErrProof],
// ledger.ErrSignature).
func (p *Proof) Check(keys ...note.Verifier) (*Proven, error) {
	h, signatures, err := ledger.ReadCheckpoint([]byte(p.Checkpoint), "", keys...)
	if err != nil {
		return nil, fmt.Errorf("%w: its checkpoint: %w", ErrProof, err)
	}
	proven := &Proven{Head: h}
	for _, s := range signatures {
		proven.Keys = append(proven.Keys, fmt.Sprintf("%s+%08x", s.Name, s.Hash))
	}
	for i := range p.Events {
		event, err := p.Events[i].check(&h)
		if err != nil {
			return nil, fmt.Errorf("%w: event %d: %w", ErrProof, i, err)
		}
		proven.Events = append(proven.Events, event)
		proven.Items += len(p.Events[i].Items)
	}
	return proven, nil
}

func (e *EventProof) check(h *ledger.Checkpoint) (*schemas.Event, error) {
	if err := ledger.CheckInclusion(e.Inclusion, h.Size, h.Root, e.Leaf, seal.Event([]byte(e.Sealed))); err != nil {
		return nil, err
	}
	event, err := schemas.DecodeEvent([]byte(e.Sealed))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i := range e.Items {
		item := &e.Items[i]
		ref := refOf(event, item.Name)
		switch {
		case ref == nil:
			return nil, fmt.Errorf("it does not name the item %.100q", item.Name)
		case seen[item.Name]:
			return nil, fmt.Errorf("item %s is there twice", item.Name)
		case ref.Keep == schemas.KeepNone || ref.Keep == schemas.KeepDigest:
			return nil, fmt.Errorf("item %s was not kept, and cannot be shown", item.Name)
		}
		if text := Committed(ref, item.Salt, item.Kept); text != "" {
			return nil, fmt.Errorf("item %s: %s", item.Name, text)
		}
		seen[item.Name] = true
	}
	return event, nil
}

func refOf(event *schemas.Event, name string) *schemas.OpenRef {
	for i := range event.Open {
		if event.Open[i].Name() == name {
			return &event.Open[i]
		}
	}
	return nil
}

// Prover makes inclusion proofs under one head; an audit/ledger.Reader is one.
type Prover interface {
	Inclusion(leaf uint64) ([]seal.Hash, error)
}

// NewProof begins a proof under a signed head; add events to it.
func NewProof(signed []byte, keys []string) *Proof {
	return &Proof{Format: ProofFormat, Checkpoint: string(signed), Keys: keys}
}

// Add shows a leaf with open items beside it: rows of both tables, in any order. Items that are not kept are left out.
func (p *Proof) Add(prover Prover, row *EventRow, items []ContextRow) error {
	if !utf8.Valid(row.Raw) {
		return fmt.Errorf("%w: the sealed bytes at %s %d are not UTF-8", ErrProof, row.Stream, row.Position)
	}
	event, err := schemas.DecodeEvent(row.Raw)
	if err != nil {
		return fmt.Errorf("%w: the event at %s %d: %w", ErrProof, row.Stream, row.Position, err)
	}
	inclusion, err := prover.Inclusion(row.Leaf)
	if err != nil {
		return err
	}
	proof := EventProof{Sealed: string(row.Raw), Leaf: row.Leaf, Inclusion: inclusion}
	for i := range event.Open {
		ref := &event.Open[i]
		if ref.Keep == schemas.KeepNone || ref.Keep == schemas.KeepDigest {
			continue
		}
		if item, ok := whole(ref, row, items); ok {
			proof.Items = append(proof.Items, item)
		}
	}
	p.Events = append(p.Events, proof)
	return nil
}

// whole puts an item together from its rows.
func whole(ref *schemas.OpenRef, event *EventRow, rows []ContextRow) (item ItemProof, ok bool) {
	item = ItemProof{Name: ref.Name(), Kept: []byte{}}
	for part := uint32(0); ; part++ {
		found := false
		for i := range rows {
			r := &rows[i]
			if r.Writer == event.Writer && r.Seq == event.Seq && r.Role == string(ref.Role) && r.Index == number(ref.Index) && r.Part == part {
				item.Salt, item.Kept, found = r.Salt, append(item.Kept, r.Data...), true
				break
			}
		}
		if !found {
			return item, part > 0
		}
	}
}
