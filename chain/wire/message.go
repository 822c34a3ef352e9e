package wire

import (
	"bytes"
	"strconv"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Kind is what a message is.
type Kind uint8

// The kinds of messages.
const (
	KindInvalid      Kind = iota
	KindRequest           // method and id
	KindNotification      // method, no id
	KindResponse          // result and id
	KindError             // error and id (which may be null)
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"invalid", "request", "notification", "response", "error"}[min(k, KindError)]
}

// Flags tell what a message has that parsers judge differently.
type Flags uint8

// The flags.
const (
	FlagLoneSurrogate Flags = 1 << iota // an escaped half surrogate pair somewhere
	FlagInvalidUTF8                     // only with Limits.Lenient
	FlagDuplicates                      // only with Limits.Lenient
	FlagNull                            // params were null
)

// Limits bound what Parse accepts. The zero value is the default.
type Limits struct {
	MaxDepth int  // levels of nesting; 0 means 1,000
	Lenient  bool // pass and flag duplicate names and invalid UTF-8, for responses no interceptor is due for
}

// Message is a JSON-RPC message split at its top level. All fields alias Raw: none may be modified.
type Message struct {
	Raw    []byte
	Kind   Kind
	Flags  Flags
	Method string
	ID     jsonx.Value // as written; nil when absent
	Params jsonx.Value // object, array or null; nil when absent
	Result jsonx.Value // nil when absent
	Error  jsonx.Value // nil when absent; see [Message.RPCError]

	insertAt int // where a missing params member goes: behind the method's value
	paramsAt int
	resultAt int
}

// Parse splits raw, which it keeps. Errors are *[ParseError], or *[BatchError] for an array; with a
// ParseError the message holds what was found. Parse may be called concurrently.
func Parse(raw []byte, limits Limits) (Message, error) {
	msg := Message{Raw: raw}
	traits, err := jsonx.Verify(raw, limits.MaxDepth)
	if err != nil {
		return msg, parseError(raw, "invalid JSON", err)
	}
	if traits.LoneSurrogates {
		msg.Flags |= FlagLoneSurrogate
	}
	if traits.InvalidUTF8 {
		msg.Flags |= FlagInvalidUTF8
	}
	if traits.Duplicates {
		msg.Flags |= FlagDuplicates
	}
	switch first := bytes.TrimLeft(raw, " \t\r\n"); first[0] {
	case '[':
		return msg, splitBatch(raw)
	case '{':
	default:
		return msg, &ParseError{Code: CodeInvalidRequest, Reason: "not an object", Offset: 0}
	}
	reason := msg.split()
	if !limits.Lenient {
		if traits.InvalidUTF8 {
			return msg, &ParseError{Code: CodeParseError, ID: answerID(msg.ID), Reason: "invalid UTF-8", Offset: -1}
		}
		if traits.Duplicates {
			return msg, parseError(raw, "duplicate member name", jsonx.DuplicateAt(raw))
		}
	}
	if reason != "" {
		msg.Kind = KindInvalid
		return msg, &ParseError{Code: CodeInvalidRequest, ID: answerID(msg.ID), Reason: reason, Offset: -1}
	}
	return msg, nil
}

// split finds the members and the kind, and says what is wrong with them.
func (m *Message) split() (reason string) {
	var version, method jsonx.Value
	for member := range jsonx.Members(m.Raw) {
		switch string(member.Name) {
		case "jsonrpc":
			version = member.Value
		case "id":
			m.ID = member.Value
		case "method":
			method = member.Value
			m.insertAt = member.At + len(member.Value)
		case "params":
			m.Params, m.paramsAt = member.Value, member.At
		case "result":
			m.Result, m.resultAt = member.Value, member.At
		case "error":
			m.Error = member.Value
		}
	}
	if v, ok := jsonx.StringOf(version); !ok || v != "2.0" {
		return `member "jsonrpc" is not "2.0"`
	}
	if m.ID != nil && m.ID[0] != '"' && !isNumber(m.ID) && string(m.ID) != "null" {
		return "id is not a string or number"
	}
	if method != nil {
		return m.classifyCall(method)
	}
	return m.classifyAnswer()
}

func (m *Message) classifyCall(method jsonx.Value) (reason string) {
	name, ok := jsonx.StringOf(method)
	if !ok {
		return "method is not a string"
	}
	m.Method = name
	switch {
	case name == "":
		return "method is empty"
	case m.Result != nil || m.Error != nil:
		return "both a call and an answer"
	case string(m.ID) == "null":
		return "id of a request is null"
	case m.Params != nil && string(m.Params) == "null":
		m.Flags |= FlagNull
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		return "params are not an object"
	}
	m.Kind = KindRequest
	if m.ID == nil {
		m.Kind = KindNotification
	}
	return ""
}

func (m *Message) classifyAnswer() (reason string) {
	switch {
	case m.Result == nil && m.Error == nil:
		return "neither method nor result nor error"
	case m.Result != nil && m.Error != nil:
		return "both result and error"
	case m.Error != nil:
		if m.Error[0] != '{' {
			return "error is not an object"
		}
		m.Kind = KindError
		return ""
	case m.ID == nil || string(m.ID) == "null":
		return "result without an id"
	}
	m.Kind = KindResponse
	return ""
}

// RPCError decodes the error member liberally: a missing or odd code becomes CodeInternal.
// It returns nil when the message is not an error answer.
func (m *Message) RPCError() *RPCError {
	if m.Kind != KindError {
		return nil
	}
	e := &RPCError{Code: CodeInternal}
	for member := range jsonx.Members(m.Error) {
		switch string(member.Name) {
		case "code":
			if code, err := strconv.Atoi(string(member.Value)); err == nil {
				e.Code = code
			}
		case "message":
			e.Message, _ = jsonx.StringOf(member.Value)
		case "data":
			e.Data = member.Value
		}
	}
	return e
}

// splitBatch returns the entries of an array, or why it is not a batch.
func splitBatch(raw []byte) error {
	var entries []jsonx.Value
	for v := range jsonx.Elements(raw) {
		entries = append(entries, v)
	}
	if len(entries) == 0 {
		return &ParseError{Code: CodeInvalidRequest, Reason: "empty batch", Offset: 0}
	}
	return &BatchError{Entries: entries}
}

// parseError tells where err was found, and which id the answer may carry.
func parseError(raw []byte, reason string, err error) *ParseError {
	e := &ParseError{Code: CodeParseError, Reason: reason, Offset: -1, Err: err}
	if pos, ok := jsonx.PositionOf(err); ok {
		e.Offset = pos.Offset
	}
	for member := range jsonx.Members(raw) {
		if string(member.Name) == "id" {
			e.ID = answerID(member.Value)
			break
		}
	}
	return e
}

// answerID returns id if an answer may carry it, else nil. It is also used on ungrammatical text.
func answerID(id jsonx.Value) jsonx.Value {
	if len(id) == 0 || (id[0] != '"' && !isNumber(id)) || len(id) > maxIDLength || !id.IsValid() {
		return nil
	}
	return id
}

// maxIDLength bounds an id that is taken from a message that could not be parsed.
const maxIDLength = 256

func isNumber(v jsonx.Value) bool {
	return len(v) > 0 && (v[0] == '-' || '0' <= v[0] && v[0] <= '9')
}
