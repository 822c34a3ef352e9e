package builtin

import (
	"bytes"
	"encoding/json/jsontext"
	"strings"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	maxPlace    = 128 // bytes of a path that is told
	maxMessages = 20  // findings that are told one by one
)

// placeOf names the value that the byte at an offset of v belongs to, as in arguments.to or content.0.text.
// A byte of a member name belongs to the object: the name may itself be what was found.
func placeOf(v jsonx.Value, at int) string {
	dec := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return ""
		}
		if int(dec.InputOffset()) > at {
			break
		}
	}
	place := string(dec.StackPointer())
	if kind, n := dec.StackIndex(dec.StackDepth()); kind == '{' && n%2 == 1 {
		place = place[:max(strings.LastIndexByte(place, '/'), 0)]
	}
	place = strings.ReplaceAll(strings.TrimPrefix(place, "/"), "/", ".")
	place = strings.NewReplacer("~1", "/", "~0", "~").Replace(place)
	if len(place) > maxPlace {
		place = strings.ToValidUTF8(place[:maxPlace], "") + "…"
	}
	return place
}

// toolOf returns the tool or prompt that a request names.
func toolOf(payload jsonx.Value) string {
	name, _ := wire.MemberString(payload, "name")
	return name
}

// targetOf returns the tool, prompt or resource of an operation: as a request names it, and of a response
// as the invoker tells; empty where it does not.
func targetOf(call *interceptor.Call) (string, error) {
	if call.Phase == schemas.PhaseRequest {
		if name := toolOf(call.Payload); name != "" {
			return name, nil
		}
		uri, _ := wire.MemberString(call.Payload, "uri")
		return uri, nil
	}
	caller, err := call.Caller()
	return caller.Target, err
}
