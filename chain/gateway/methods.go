package gateway

import "strings"

// Methods with a rule of their own.
const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodUpdated     = "notifications/resources/updated"
	methodLog         = "notifications/message"
	methodDiscover    = "server/discover"
	methodPing        = "ping"
	methodListen      = "subscriptions/listen"
	methodToolsList   = "tools/list"
	methodToolsCall   = "tools/call"
	methodPromptsList = "prompts/list"
	methodPromptsGet  = "prompts/get"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
)

// Protocol revisions that change what the gateway does.
const (
	version20250618 = "2025-06-18" // no batches from here on
	version20260728 = "2026-07-28" // stateless: no sessions, a closed response stream is a cancel
)

// eventOther stands in sealed events for a method that is neither known nor configured: its name
// came from outside.
const eventOther = "other"

// neverChained reports whether a method never goes through the plan: lifecycle, because nothing is
// negotiated yet, and interceptor methods, because of endless recursion (SEP-2624).
func neverChained(method string) bool {
	switch method {
	case methodInitialize, methodDiscover, methodPing, methodListen:
		return true
	}
	return strings.HasPrefix(method, "notifications/") || strings.HasPrefix(method, "interceptor")
}

// knownMethod reports whether a method is one of MCP, so that its name may be sealed.
func knownMethod(method string) bool {
	switch method {
	case methodInitialize, methodDiscover, methodPing, methodListen,
		methodToolsList, methodToolsCall, methodPromptsList, methodPromptsGet, methodSubscribe, methodUnsubscribe,
		"resources/list", "resources/read", "resources/templates/list",
		"completion/complete", "logging/setLevel",
		"sampling/createMessage", "elicitation/create", "roots/list",
		"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
		"interceptors/list", "interceptor/invoke", "interceptors/invoke":
		return true
	}
	return false
}

// sealedVersion is the protocol version as it may be sealed.
func sealedVersion(version string) string {
	switch version {
	case "", "2024-11-05", "2025-03-26", version20250618, "2025-11-25", version20260728:
		return version
	}
	return "other"
}

// stateless reports whether a version has no sessions.
func stateless(version string) bool {
	return len(version) == len(version20260728) && version >= version20260728
}

// batches reports whether a version allows batches; an unknown one counts as 2025-03-26, as the
// transport of that revision demands.
func batches(version string) bool { return version == "" || version < version20250618 }
