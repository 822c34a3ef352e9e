package wire

// Protocol versions, newest first.
const (
	Version20260728 = "2026-07-28"
	Version20251125 = "2025-11-25"
	Version20250618 = "2025-06-18"
	Version20250326 = "2025-03-26"
	Version20241105 = "2024-11-05"
)

// Versions lists the protocol versions we speak, newest first.
func Versions() []string {
	return []string{Version20260728, Version20251125, Version20250618, Version20250326, Version20241105}
}

// LegacyVersions lists those that begin with initialize, newest first.
func LegacyVersions() []string { return Versions()[1:] }

// Modern tells whether a protocol version has no initialize and no sessions (2026-07-28 and later).
func Modern(version string) bool {
	return len(version) == len(Version20260728) && version >= Version20260728
}

// Methods that wire itself knows.
const (
	methodInitialize  = "initialize"
	MethodInitialize  = methodInitialize
	MethodInitialized = "notifications/initialized"
	MethodDiscover    = "server/discover"
	MethodPing        = "ping"
	MethodCancelled   = "notifications/cancelled"
)
