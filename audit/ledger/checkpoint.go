package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/chaintrail/chaintrail/schemas/seal"
)

// maxNote bounds a signed head; anything longer is not one.
const maxNote = 64 << 10

var (
	// ErrCheckpoint is returned for a text that is no head of a ledger.
	ErrCheckpoint = errors.New("malformed checkpoint")
	// ErrSignature is returned for a head that none of the given keys has signed.
	ErrSignature = errors.New("the checkpoint is not signed by a known key")
)

// Checkpoint is the head of a ledger at one moment (C2SP tlog-checkpoint). The lines after the root are its extensions.
type Checkpoint struct {
	Origin   string    // names the ledger for ever: no key, no time, no shard shares it
	Size     uint64    // leaves
	Root     seal.Hash // RFC 6962 section 2.1
	Time     time.Time // UTC, of the sealer's clock
	Clock    string    // what is known of that clock: synchronized, unsynchronized or unknown
	Stream   string    // whose messages the leaves are
	Position uint64    // of the last message in the stream that was looked at
}

// Text is the body of the note, without signatures.
func (c *Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\ntime %s\nclock %s\nstream %s %d\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]),
		c.Time.UTC().Format(time.RFC3339Nano), c.Clock, c.Stream, c.Position)
}

// Sign makes the note that is published.
func (c *Checkpoint) Sign(signers ...note.Signer) ([]byte, error) {
	if err := c.valid(); err != nil {
		return nil, err
	}
	text, err := note.Sign(&note.Note{Text: c.Text()}, signers...)
	if err != nil {
		return nil, fmt.Errorf("sign the checkpoint: %w", err)
	}
	return text, nil
}

func (c *Checkpoint) valid() error {
	for _, field := range []string{c.Origin, c.Clock, c.Stream} {
		if field == "" || strings.ContainsAny(field, "\n\r") {
			return fmt.Errorf("%w: %.100q", ErrCheckpoint, field)
		}
	}
	return nil
}

// Signature says whose key stands under a head.
type Signature struct {
	Name string
	Hash uint32 // of the key, as in the note
}

// ReadCheckpoint reads a note whose origin is given, and which at least one of the verifiers that is not a witness must
// find signed; it returns all that did. An empty origin takes any.
func ReadCheckpoint(text []byte, origin string, verifiers ...note.Verifier) (Checkpoint, []Signature, error) {
	if len(text) > maxNote {
		return Checkpoint{}, nil, fmt.Errorf("%w: %d bytes", ErrCheckpoint, len(text))
	}
	n, err := note.Open(text, note.VerifierList(verifiers...))
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		return Checkpoint{}, nil, ErrSignature
	case err != nil:
		return Checkpoint{}, nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	case !canonical(text[len(n.Text):]):
		return Checkpoint{}, nil, fmt.Errorf("%w: a signature is not base64 as it is written", ErrCheckpoint)
	case !slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return ofLedger(s, verifiers) }):
		return Checkpoint{}, nil, ErrSignature
	}
	c, err := ParseCheckpoint(n.Text)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if origin != "" && c.Origin != origin {
		return Checkpoint{}, nil, fmt.Errorf("%w: it is of ledger %.100q, not of %.100q", ErrCheckpoint, c.Origin, origin)
	}
	signatures := make([]Signature, len(n.Sigs))
	for i, s := range n.Sigs {
		signatures[i] = Signature{s.Name, s.Hash}
	}
	return c, signatures, nil
}

// canonical reports whether each signature is in its one base64 form. Package note also takes others, and a head would
// have several texts.
func canonical(signatures []byte) bool {
	for line := range bytes.Lines(signatures) {
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) == 0 {
			continue
		}
		if _, err := base64.StdEncoding.Strict().DecodeString(string(line[bytes.LastIndexByte(line, ' ')+1:])); err != nil {
			return false
		}
	}
	return true
}

func ofLedger(s note.Signature, verifiers []note.Verifier) bool {
	return slices.ContainsFunc(verifiers, func(v note.Verifier) bool {
		_, cosigns := v.(witness)
		return !cosigns && v.Name() == s.Name && v.KeyHash() == s.Hash
	})
}

// ParseCheckpoint reads the body of a note; nothing is verified. Extensions of others are left out.
func ParseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[len(lines)-1] != "" || lines[0] == "" {
		return Checkpoint{}, fmt.Errorf("%w: it has %d lines", ErrCheckpoint, len(lines)-1)
	}
	c := Checkpoint{Origin: lines[0]}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("%w: size %.50q", ErrCheckpoint, lines[1])
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return Checkpoint{}, fmt.Errorf("%w: root %.100q", ErrCheckpoint, lines[2])
	}
	c.Size, c.Root = size, seal.Hash(root)
	for _, line := range lines[3 : len(lines)-1] {
		if err := c.extension(line); err != nil {
			return Checkpoint{}, err
		}
	}
	return c, nil
}

func (c *Checkpoint) extension(line string) (err error) {
	name, value, _ := strings.Cut(line, " ")
	switch name {
	case "":
		return fmt.Errorf("%w: an empty line", ErrCheckpoint)
	case "time":
		c.Time, err = time.Parse(time.RFC3339Nano, value)
	case "clock":
		c.Clock = value
	case "stream":
		var position string
		c.Stream, position, _ = strings.Cut(value, " ")
		c.Position, err = strconv.ParseUint(position, 10, 64)
	}
	if err != nil {
		return fmt.Errorf("%w: extension %.100q: %w", ErrCheckpoint, line, err)
	}
	return nil
}
