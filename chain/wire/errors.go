package wire

import (
	"errors"
	"fmt"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// JSON-RPC and MCP error codes.
const (
	CodeParseError        = -32700
	CodeInvalidRequest    = -32600
	CodeMethodNotFound    = -32601
	CodeInvalidParams     = -32602
	CodeInternal          = -32603
	CodeTimeout           = -32000 // SEP-2624: an interceptor or a chain ran out of time
	CodeHeaderMismatch    = -32020 // 2026-07-28: a header differs from the body
	CodeMissingCapability = -32021 // 2026-07-28: the client lacks a capability
	CodeVersion           = -32022 // 2026-07-28: protocol version not supported
)

// ErrBatch is returned by [Parse] for an array, wrapped in a *[BatchError] that holds the entries;
// protocol 2025-06-18 and later have no batches.
var ErrBatch = errors.New("batch message")

// ErrClosed is returned when a connection was closed on this side; open a new one.
var ErrClosed = errors.New("connection closed")

// ErrDisconnected is returned by calls whose connection ended before the answer; whether the peer
// acted on the call is unknown.
var ErrDisconnected = errors.New("connection lost")

// ErrSessionLost is returned when an HTTP server does not know the session any more (status 404);
// initialize again.
var ErrSessionLost = errors.New("session lost")

// ErrNoAnswer is returned when an HTTP answer ended without the response to its request.
var ErrNoAnswer = errors.New("stream ended without the answer")

// ErrTooLarge is returned, wrapped with the limit, when a message exceeds its bound; raise the
// limit or send less. The connection stays usable.
var ErrTooLarge = errors.New("message too large")

// ParseError says why bytes are not a JSON-RPC message.
type ParseError struct {
	Code   int         // CodeParseError: not JSON; CodeInvalidRequest: not JSON-RPC
	ID     jsonx.Value // id of the message as far as it could be found, else nil
	Reason string      // short text without content of the message
	Offset int64       // bytes into the message, -1 when unknown
	Err    error       // cause, may be nil
}

// Error implements error. The text holds no content of the message.
func (e *ParseError) Error() string {
	if e.Offset >= 0 {
		return fmt.Sprintf("parse message: %s at byte %d", e.Reason, e.Offset)
	}
	return "parse message: " + e.Reason
}

// Unwrap returns the cause.
func (e *ParseError) Unwrap() error { return e.Err }

// RPC returns the JSON-RPC error that answers the bad message.
func (e *ParseError) RPC() *RPCError {
	text := "Parse error"
	if e.Code == CodeInvalidRequest {
		text = "Invalid Request"
	}
	return &RPCError{Code: e.Code, Message: text + ": " + e.Reason}
}

// BatchError carries the entries of a batch.
type BatchError struct {
	Entries []jsonx.Value // in order, aliasing the message; each may be anything: Parse it
}

// Error implements error.
func (e *BatchError) Error() string { return fmt.Sprintf("%v of %d", ErrBatch, len(e.Entries)) }

// Unwrap returns [ErrBatch].
func (e *BatchError) Unwrap() error { return ErrBatch }

// RPCError is a JSON-RPC error answer.
type RPCError struct {
	Code    int
	Message string
	Data    jsonx.Value // nil when absent
}

// Error implements error.
func (e *RPCError) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }
