package wire

import (
	"bytes"
	"encoding/hex"
	"strings"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// NeverChained reports whether a method never goes through a plan: lifecycle, because nothing is negotiated yet,
// notifications, which have no answer, and interceptor methods, because of endless recursion (SEP-2624).
func NeverChained(method string) bool {
	switch method {
	case MethodInitialize, MethodDiscover, MethodPing, "subscriptions/listen":
		return true
	}
	return strings.HasPrefix(method, "notifications/") || strings.HasPrefix(method, "interceptor")
}

// KnownMethod reports whether a method is one of MCP or an event of SEP-2624, so that its name may be sealed.
func KnownMethod(method string) bool {
	switch method {
	case MethodInitialize, MethodDiscover, MethodPing, "subscriptions/listen",
		"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/subscribe", "resources/unsubscribe",
		"resources/list", "resources/read", "resources/templates/list",
		"completion/complete", "logging/setLevel",
		"sampling/createMessage", "elicitation/create", "roots/list", "llm/completion",
		"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
		"interceptors/list", "interceptor/invoke", "interceptors/invoke":
		return true
	}
	return false
}

// TargetMember is the member of a method's params that names what is asked for; empty if none does.
func TargetMember(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return "uri"
	}
	return ""
}

// SealedVersion is a protocol version as it may be sealed: a known one, empty, or "other".
func SealedVersion(version string) string {
	switch version {
	case "", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", Version20260728:
		return version
	}
	return "other"
}

// IsToolError reports whether a tool result says isError. Most results do not have the word.
func IsToolError(result jsonx.Value) bool {
	if !bytes.Contains(result, []byte(`"isError"`)) {
		return false
	}
	v, ok := jsonx.Lookup(result, "isError")
	return ok && string(v) == "true"
}

// Trace splits a W3C traceparent; both parts are empty when it is not valid.
func Trace(parent string) (traceID, spanID string) {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' || parent[:2] == "ff" ||
		(len(parent) > 55 && (parent[:2] == "00" || parent[55] != '-')) {
		return "", ""
	}
	traceID, spanID = parent[3:35], parent[36:52]
	if !lowerHex(traceID) || !lowerHex(spanID) {
		return "", ""
	}
	return traceID, spanID
}

func lowerHex(s string) bool {
	var b [16]byte
	zero := true
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
		zero = zero && s[i] == '0'
	}
	_, err := hex.Decode(b[:len(s)/2], []byte(s))
	return err == nil && !zero
}
