package chdb

import (
	"strconv"
	"strings"
)

// Error is an exception of the engine.
type Error struct {
	// Code is ClickHouse's number, such as 60 for an unknown table; 0 if the engine gave none.
	Code int
	// Message is the engine's text, beginning with "Code: 60. DB::Exception: …" where it has a code.
	Message string
}

func (e *Error) Error() string { return e.Message }

func newError(message string) *Error {
	return &Error{Code: codeOf(message), Message: message}
}

// codeOf reads the number out of "Code: 60. DB::Exception: …", which may follow a prefix such as "Error: ".
func codeOf(message string) int {
	const marker = "Code: "
	_, rest, found := strings.Cut(message, marker)
	if !found {
		return 0
	}
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 || rest[digits] != '.' {
		return 0
	}
	code, err := strconv.Atoi(rest[:digits])
	if err != nil {
		return 0
	}
	return code
}
