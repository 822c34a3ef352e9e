package chdb

import (
	"runtime"
	"unsafe"
)

// text holds the arguments that every statement has, pinned for the time of one call. The library copies them.
type text struct {
	pinner                             *runtime.Pinner
	sql, format                        unsafe.Pointer
	sqlLen, formatLen                  uintptr
	names, nameLens, values, valueLens unsafe.Pointer
	count                              uintptr
}

func newText(sql, format string, params []Param) text {
	t := text{pinner: new(runtime.Pinner), count: uintptr(len(params))}
	t.sql, t.sqlLen = t.pin(sql)
	t.format, t.formatLen = t.pin(format)
	if len(params) == 0 {
		return t
	}
	names, values := make([]unsafe.Pointer, len(params)), make([]unsafe.Pointer, len(params))
	nameLens, valueLens := make([]uintptr, len(params)), make([]uintptr, len(params))
	for i, param := range params {
		names[i], nameLens[i] = t.pin(param.Name)
		values[i], valueLens[i] = t.pin(param.Value)
	}
	t.pinner.Pin(&names[0])
	t.pinner.Pin(&values[0])
	t.pinner.Pin(&nameLens[0])
	t.pinner.Pin(&valueLens[0])
	t.names, t.nameLens = unsafe.Pointer(&names[0]), unsafe.Pointer(&nameLens[0]) //nolint:gosec // pinned above
	t.values, t.valueLens = unsafe.Pointer(&values[0]), unsafe.Pointer(&valueLens[0])
	return t
}

// pin returns the address of a copy of s; a copy, because string constants lie outside of the heap, and one byte longer,
// because an empty string has no address.
func (t *text) pin(s string) (unsafe.Pointer, uintptr) {
	data := make([]byte, len(s)+1)
	copy(data, s)
	t.pinner.Pin(&data[0])
	return unsafe.Pointer(&data[0]), uintptr(len(s)) //nolint:gosec // pinned
}

func (t *text) release() { t.pinner.Unpin() }
