package gateway

import "github.com/chaintrail/chaintrail/chain/wire"

// Methods with a rule of their own.
const (
	methodInitialize   = "initialize"
	methodInitialized  = "notifications/initialized"
	methodCancelled    = "notifications/cancelled"
	methodRootsChanged = "notifications/roots/list_changed"
	methodProgress     = "notifications/progress"
	methodUpdated      = "notifications/resources/updated"
	methodLog          = "notifications/message"
	methodDiscover     = "server/discover"
	methodPing         = "ping"
	methodListen       = "subscriptions/listen"
	methodToolsList    = "tools/list"
	methodToolsCall    = "tools/call"
	methodPromptsList  = "prompts/list"
	methodPromptsGet   = "prompts/get"
	methodSetLevel     = "logging/setLevel"
	methodSubscribe    = "resources/subscribe"
	methodUnsubscribe  = "resources/unsubscribe"
)

// Protocol revisions that change what the gateway does.
const (
	version20250618 = "2025-06-18" // no batches from here on
	version20260728 = "2026-07-28" // stateless: no sessions, a closed response stream is a cancel
)

// eventOther stands in sealed events for a method that is neither known nor configured: its name
// came from outside.
const eventOther = "other"

// stateless reports whether a version has no sessions.
func stateless(version string) bool { return wire.Modern(version) }

// batches reports whether a version allows batches; an unknown one counts as 2025-03-26, as the
// transport of that revision demands.
func batches(version string) bool { return version == "" || version < version20250618 }
