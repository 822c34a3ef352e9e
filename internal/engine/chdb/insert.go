package chdb

import (
	"errors"
	"unsafe"
)

// Insert is a running INSERT that is fed with encoded rows. It belongs to one connection and must be closed before the
// next statement runs there. Blocks that were complete may be stored although the insert fails or is closed early: the
// engine has no transaction.
type Insert struct {
	conn   *Conn
	handle unsafe.Pointer
}

// Insert starts an INSERT. The statement must have neither a FORMAT clause nor data of its own.
func (c *Conn) Insert(sql, format string, params ...Param) (*Insert, error) {
	if c.handle == nil {
		return nil, errClosed
	}
	text := newText(sql, format, params)
	defer text.release()
	handle := c.lib.fn.insertBegin(c.handle, text.sql, text.sqlLen, text.format, text.formatLen,
		text.names, text.nameLens, text.values, text.valueLens, text.count)
	if handle == nil {
		return nil, errors.New("engine returned no insert stream")
	}
	insert := &Insert{conn: c, handle: handle}
	if err := insert.failure(); err != nil {
		insert.Close()
		return nil, err
	}
	return insert, nil
}

// Write hands a piece of the encoded rows to the engine, which copies it; pieces need not end at a row or block. It
// waits while the engine is behind.
func (i *Insert) Write(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	if i.conn.lib.fn.insertAppend(i.handle, unsafe.Pointer(&data[0]), uintptr(len(data))) != 0 { //nolint:gosec // copied during the call
		if err := i.failure(); err != nil {
			return 0, err
		}
		// The worker ended without an error of its own; Done knows why.
		return 0, ErrStopped
	}
	return len(data), nil
}

// ErrStopped is returned by [Insert.Write] when the engine reads no further; [Insert.Done] returns the reason.
var ErrStopped = errors.New("engine takes no more data for this insert")

// Done ends the data and waits until the rows are stored.
func (i *Insert) Done() (Stats, error) {
	_, stats, err := i.conn.lib.take(i.conn.lib.fn.insertDone(i.handle))
	return stats, err
}

// Close releases the insert, and abandons it unless Done was called. A second Close does nothing.
func (i *Insert) Close() {
	if i.handle != nil {
		i.conn.lib.fn.insertDestroy(i.handle)
		i.handle = nil
	}
}

func (i *Insert) failure() error {
	if message := i.conn.lib.fn.insertError(i.handle); message != "" {
		return newError(message)
	}
	return nil
}
