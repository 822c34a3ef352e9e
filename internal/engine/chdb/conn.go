package chdb

import (
	"errors"
	"runtime"
	"unsafe"
)

// Conn is a session of the engine: settings, current database and temporary tables live in it. It runs one statement
// at a time, so its methods, and those of the streams it opened, must not be called concurrently. A statement that
// runs is stopped from another connection with KILL QUERY.
type Conn struct {
	lib    *Library
	owner  unsafe.Pointer // what the library wants back in Close
	handle unsafe.Pointer // nil once closed
}

// Stats counts what a statement did so far.
type Stats struct {
	RowsRead, BytesRead uint64 // of the result
	RowsWritten         uint64 // including rows of dependent materialized views
}

// Param is a value for a `{name:Type}` placeholder; the engine parses Value by the type that the statement names.
type Param struct{ Name, Value string }

// errClosed is returned when a connection is used after Close.
var errClosed = errors.New("engine connection is closed")

// Close ends the session; a statement must not be running. A second Close does nothing.
func (c *Conn) Close() {
	if c.handle != nil {
		c.lib.fn.close(c.owner)
		c.owner, c.handle = nil, nil
	}
}

// Exec runs one statement to its end and returns its result, encoded in format, as a copy. The whole result is held in
// memory twice for a moment; use [Conn.Stream] for results without a bound.
func (c *Conn) Exec(sql, format string, params ...Param) ([]byte, Stats, error) {
	if c.handle == nil {
		return nil, Stats{}, errClosed
	}
	text := newText(sql, format, params)
	defer text.release()
	result := c.lib.fn.query(c.handle, text.sql, text.sqlLen, text.format, text.formatLen,
		text.names, text.nameLens, text.values, text.valueLens, text.count)
	return c.lib.take(result)
}

// Class says what a statement does to state that outlives it, in rising order of restriction.
type Class uint32

// The classes of the engine's own parser. [ClassUnknown] must be treated as the most dangerous one.
const (
	ClassReadOnly       Class = iota // SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS, CHECK
	ClassMutating                    // changes a database
	ClassMutatingGlobal              // changes functions, named collections, users
	ClassControl                     // SET, USE, SYSTEM, KILL, and what writes outside the engine
	ClassUnknown                     // does not parse
)

// Classify asks the engine's parser about a text and returns its class and the number of statements in it.
func (c *Conn) Classify(sql string) (class Class, statements int, err error) {
	if c.handle == nil {
		return ClassUnknown, 0, errClosed
	}
	text := newText(sql, "", nil)
	defer text.release()
	analysis := struct{ size, statements, flags, class uint32 }{class: uint32(ClassUnknown)}
	analysis.size = uint32(unsafe.Sizeof(analysis))
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&analysis)
	if c.lib.fn.classify(c.handle, text.sql, text.sqlLen, nil, 0, unsafe.Pointer(&analysis)) != 0 { //nolint:gosec // pinned above
		return ClassUnknown, 0, errors.New("engine refused to classify the statement")
	}
	return Class(analysis.class), int(analysis.statements), nil
}

// take copies a result out of the library and releases it.
func (l *Library) take(result unsafe.Pointer) ([]byte, Stats, error) {
	if result == nil {
		return nil, Stats{}, errors.New("engine returned no result")
	}
	defer l.fn.resultDestroy(result)
	if message := l.fn.resultError(result); message != "" {
		return nil, Stats{}, newError(message)
	}
	stats := Stats{
		RowsRead:    l.fn.resultRowsRead(result),
		BytesRead:   l.fn.resultBytesRead(result),
		RowsWritten: l.fn.resultRowsWritten(result),
	}
	size := l.fn.resultLength(result)
	buffer := l.fn.resultBuffer(result)
	if size == 0 || buffer == nil {
		return nil, stats, nil
	}
	data := make([]byte, size)
	copy(data, unsafe.Slice((*byte)(buffer), size)) //nolint:gosec // both from the same result, which lives until it is released above
	return data, stats, nil
}
