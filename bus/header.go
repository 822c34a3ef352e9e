package bus

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Headers of chaintrail's messages.
const (
	HeaderHash  = "Chaintrail-Hash" // hash of the sealed bytes, hex
	HeaderSeq   = "Chaintrail-Seq"  // the event's number in its writer, also on its open items
	HeaderOpen  = "Chaintrail-Open" // "<first>-<last>": positions of the event's items in the open stream
	HeaderItem  = "Chaintrail-Item" // JSON of schemas.OpenHeader, with Part and Parts
	HeaderPart  = "Chaintrail-Part" // number of the message among those of its event, from 0
	headerTrace = "traceparent"     // W3C Trace Context

	// headerBase, on an event without items, is where its writer's open items end: whoever resumes looks from there.
	headerBase = "Chaintrail-Open-After"
)

// span is a range of positions, both ends included; zero means none.
type span struct{ first, last uint64 }

func (s span) String() string {
	return strconv.FormatUint(s.first, 10) + "-" + strconv.FormatUint(s.last, 10)
}

func (s *span) add(position uint64) {
	if s.first == 0 || position < s.first {
		s.first = position
	}
	s.last = max(s.last, position)
}

func parseSpan(text string) (span, error) {
	a, b, ok := strings.Cut(text, "-")
	first, err1 := strconv.ParseUint(a, 10, 64)
	last, err2 := strconv.ParseUint(b, 10, 64)
	if !ok || err1 != nil || err2 != nil || first == 0 || last < first {
		return span{}, fmt.Errorf("%w: %s %.100q", ErrHeader, HeaderOpen, text)
	}
	return span{first, last}, nil
}

// Seq returns the event's number in its writer as the message's header says it.
func Seq(header map[string][]string) (uint64, error) { return headerNumber(header, HeaderSeq) }

// Hash returns the event's hash as the message's header says it; it is not compared with the data.
func Hash(header map[string][]string) (h seal.Hash, err error) {
	if err := h.UnmarshalText([]byte(first(header, HeaderHash))); err != nil {
		return seal.Hash{}, fmt.Errorf("%w: %s: %w", ErrHeader, HeaderHash, err)
	}
	return h, nil
}

// ItemHeader returns the header of a message of the open stream.
func ItemHeader(header map[string][]string) (h schemas.OpenHeader, err error) {
	if err := jsonx.Unmarshal([]byte(first(header, HeaderItem)), &h); err != nil {
		return schemas.OpenHeader{}, fmt.Errorf("%w: %s: %w", ErrHeader, HeaderItem, err)
	}
	return h, nil
}

func headerNumber(header map[string][]string, key string) (uint64, error) {
	n, err := strconv.ParseUint(first(header, key), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s %.100q", ErrHeader, key, first(header, key))
	}
	return n, nil
}

func first(header map[string][]string, key string) string {
	if values := header[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// traceParent finds the trace context in sealed bytes without decoding them. It is a hint for tracing
// only; what does not look like one is left out.
func traceParent(sealed []byte) string {
	trace, span := hexMember(sealed, `"trace_id":"`, 32), hexMember(sealed, `"span_id":"`, 16)
	if trace == "" || span == "" {
		return ""
	}
	return "00-" + trace + "-" + span + "-01"
}

func hexMember(b []byte, name string, digits int) string {
	i := bytes.Index(b, []byte(name))
	if i < 0 || len(b) < i+len(name)+digits+1 {
		return ""
	}
	value := b[i+len(name):][:digits+1]
	for _, c := range value[:digits] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	if value[digits] != '"' {
		return ""
	}
	return string(value[:digits])
}

// size is what a message takes of a batch's bound.
func size(m *nats.Msg) int {
	n := len(m.Subject) + len(m.Data)
	for key, values := range m.Header {
		for _, v := range values {
			n += len(key) + len(v) + 4
		}
	}
	return n
}
