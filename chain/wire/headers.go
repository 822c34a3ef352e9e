package wire

import (
	"encoding/base64"
	"strings"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Header names of streamable HTTP, in canonical form.
const (
	HeaderSessionID       = "Mcp-Session-Id"
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method" // from 2026-07-28 on; MUST equal the body
	HeaderName            = "Mcp-Name"   // from 2026-07-28 on; MUST equal the body
	HeaderParamPrefix     = "Mcp-Param-" // from 2026-07-28 on; annotated arguments
	HeaderLastEventID     = "Last-Event-Id"
)

// Content types.
const (
	ContentJSON   = "application/json"
	ContentSSE    = "text/event-stream"
	acceptAnswers = ContentJSON + ", " + ContentSSE
)

// TargetName returns what the Mcp-Name header of a request must say: the tool, the prompt, or the URI
// of the resource.
func TargetName(method string, params jsonx.Value) (string, bool) {
	switch method {
	case "tools/call", "prompts/get":
		return MemberString(params, "name")
	case "resources/read":
		return MemberString(params, "uri")
	}
	return "", false
}

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeader returns s as an Mcp-Name or Mcp-Param value: plain if it can stand in a header, else
// in the base64 form of the specification.
func EncodeHeader(s string) string {
	plain := s == strings.Trim(s, " \t") && !strings.HasPrefix(s, encodedPrefix)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + encodedSuffix
}

// DecodeHeader undoes EncodeHeader; ok is false when the base64 form is broken.
func DecodeHeader(s string) (value string, ok bool) {
	if !strings.HasPrefix(s, encodedPrefix) || !strings.HasSuffix(s, encodedSuffix) {
		return s, true
	}
	b, err := base64.StdEncoding.DecodeString(s[len(encodedPrefix) : len(s)-len(encodedSuffix)])
	return string(b), err == nil
}

// ErrorStatus is the HTTP status of an answer with that JSON-RPC error code: from 2026-07-28 on it
// follows the code, before it is 200.
func ErrorStatus(protocolVersion string, code int) int {
	if !Modern(protocolVersion) {
		return 200
	}
	switch code {
	case CodeMethodNotFound:
		return 404
	case CodeParseError, CodeInvalidRequest, CodeInvalidParams, CodeHeaderMismatch, CodeMissingCapability, CodeVersion:
		return 400
	}
	return 200
}
