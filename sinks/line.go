package sinks

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"time"
)

// AppendLine appends the entry of an event stream as one line of JSON: position, time of publication, hash, leaf (absent
// for a checkpoint), and the sealed event, byte for byte but for line breaks between its tokens.
func (e *Entry) AppendLine(b []byte) []byte {
	b = append(b, `{"position":`...)
	b = strconv.AppendUint(b, e.Position, 10)
	b = append(b, `,"published":"`...)
	b = e.Published.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","hash":"`...)
	b = hex.AppendEncode(b, e.Hash[:])
	if e.Leaf != NoLeaf {
		b = append(b, `","leaf":`...)
		b = strconv.AppendUint(b, e.Leaf, 10)
		b = append(b, `,"event":`...)
	} else {
		b = append(b, `","event":`...)
	}
	data := bytes.TrimSpace(e.Data)
	if bytes.ContainsAny(data, "\r\n") { // only white space between tokens can be one
		data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\n"), []byte(" ")), []byte("\r"), []byte(" "))
	}
	b = append(b, data...)
	return append(b, '}', '\n')
}
