package gateway

import "errors"

// ErrStopping is returned when the gateway takes no new work because it drains or is closed.
var ErrStopping = errors.New("gateway is stopping")

// ErrUnknownBackend is returned when a backend of that name is not configured.
var ErrUnknownBackend = errors.New("unknown backend")

// ErrDrainExpired is returned by Drain when exchanges were still open at its deadline; their outcome is "stopped".
var ErrDrainExpired = errors.New("exchanges were open at the end of the drain")

var (
	errOverloaded = errors.New("too many open requests")
	errReusedID   = errors.New("request id is in use")
)

// Causes of a decision, the closed set of this package (schemas.Decision.Cause).
const (
	causeMalformed      = "malformed"       // the message could not be understood
	causeReusedID       = "reused_id"       // a request with the id is open
	causeStray          = "stray"           // an answer to an id that is not open
	causeOverloaded     = "overloaded"      // a bound of the gateway was reached
	causeStopping       = "stopping"        // the gateway takes no new work
	causeBatch          = "batch"           // batches do not exist in this protocol version
	causeBackendLost    = "backend_lost"    // connection refused, broken, child died
	causeNoAnswer       = "no_answer"       // the response stream ended without the answer
	causeHTTPStatus     = "http_status"     // the backend refused the HTTP request
	causeClientGone     = "client_gone"     // the caller left; the answer was not delivered
	causeAuditFull      = "audit_full"      // never recorded: it is what the caller is told
	causeAuditFailed    = "audit_failed"    // likewise
	causeUnresolved     = "unresolved"      // Rules.Resolver failed, or what it chose cannot be reached
	causeUnauthorized   = "unauthorized"    // Options.Identify refused
	causeTooLarge       = "too_large"       // over Options.MaxMessage
	causeUnroutable     = "unroutable"      // a shared server's request that belongs to no session
	causeUnknownSession = "unknown_session" // no session of that id, or an id is missing
	causeRound          = "round"           // an entry of inputRequests or inputResponses was blocked
	causeSessionEnded   = "session_ended"   // the session was closed while the exchange was open
)
