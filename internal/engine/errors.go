package engine

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/chaintrail/chaintrail/internal/engine/chdb"
)

var (
	// ErrLibraryMissing is returned when the engine's library is at none of the places that [FindLibrary] looks at.
	// Fetch it with `make engine`.
	ErrLibraryMissing = errors.New("the engine library is missing")
	// ErrLocked is returned by [Serve] when another process serves the data directory. Stop that process, or choose
	// another directory.
	ErrLocked = errors.New("the engine's data directory is in use by another process")
	// ErrNoToken is returned by [Serve] without a token: an engine open to every local user is never wanted.
	ErrNoToken = errors.New("the engine needs a token")
)

// Hint returns what an operator can do about err, or "".
func Hint(err error) string {
	switch {
	case errors.Is(err, ErrLibraryMissing):
		return "make engine"
	case errors.Is(err, ErrLocked):
		return "stop the other process or choose another data directory"
	case errors.Is(err, ErrNoToken):
		return "set " + EnvToken
	}
	return ""
}

// Codes of ClickHouse that the endpoint answers itself.
const (
	codeTooLarge       = 131 // TOO_LARGE_STRING_SIZE
	codeUnknownFormat  = 73
	codeBadArguments   = 36
	codeNotImplemented = 48
	codeReadonly       = 164
	codeTooMany        = 202 // TOO_MANY_SIMULTANEOUS_QUERIES
	codeCancelled      = 394 // QUERY_WAS_CANCELLED
	codeAuthentication = 516
	codeUnknown        = 1002
)

// failure is an answer other than rows.
type failure struct {
	status int
	code   int
	text   string // begins with "Code: N. DB::Exception: "
}

func (f *failure) Error() string { return f.text }

func refuse(status, code int, name, format string, args ...any) *failure {
	return &failure{status: status, code: code, text: fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, fmt.Sprintf(format, args...), name)}
}

// failureOf turns any error into an answer; the engine's own text passes through.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if e, ok := errors.AsType[*chdb.Error](err); ok && e.Code != 0 {
		return &failure{status: http.StatusInternalServerError, code: e.Code, text: e.Message}
	}
	return refuse(http.StatusInternalServerError, codeUnknown, "UNKNOWN_EXCEPTION", "%v", err)
}
