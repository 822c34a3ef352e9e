package chdb

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is a loaded libchdb. It may be used by several goroutines at once. It cannot be unloaded: the engine keeps
// threads of its own until the process ends.
type Library struct {
	path string
	fn   functions
}

// functions are the bound symbols; the field's tag is the name in the library.
type functions struct {
	version           func() string
	setSignalHandlers func(enabled bool)

	connect func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	close   func(conn unsafe.Pointer)

	streamQuery  func(conn unsafe.Pointer, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr, names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer
	query        func(conn unsafe.Pointer, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr, names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer
	streamFetch  func(conn, stream unsafe.Pointer) unsafe.Pointer
	streamCancel func(conn, stream unsafe.Pointer)

	insertBegin   func(conn unsafe.Pointer, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr, names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer
	insertAppend  func(stream unsafe.Pointer, data unsafe.Pointer, size uintptr) int32
	insertDone    func(stream unsafe.Pointer) unsafe.Pointer
	insertCancel  func(stream unsafe.Pointer)
	insertError   func(stream unsafe.Pointer) string
	insertDestroy func(stream unsafe.Pointer)

	resultBuffer      func(result unsafe.Pointer) unsafe.Pointer
	resultLength      func(result unsafe.Pointer) uintptr
	resultError       func(result unsafe.Pointer) string
	resultRowsRead    func(result unsafe.Pointer) uint64
	resultBytesRead   func(result unsafe.Pointer) uint64
	resultRowsWritten func(result unsafe.Pointer) uint64
	resultDestroy     func(result unsafe.Pointer)

	classify func(conn unsafe.Pointer, sql unsafe.Pointer, sqlLen uintptr, database unsafe.Pointer, databaseLen uintptr, out unsafe.Pointer) int32
}

// Load opens the library at path and tells it to leave the signal handlers of the process alone, which the Go runtime
// needs. It fails where the file is no libchdb or lacks a function of version 26.7.
func Load(path string) (*Library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load engine library: %w", err)
	}
	lib := &Library{path: path}
	for name, target := range lib.fn.symbols() {
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("engine library %s has no function %s (version 26.7 is needed): %w", path, name, err)
		}
		purego.RegisterFunc(target, address)
	}
	// Must come before the first connection: from then on the engine would own SIGTERM and SIGSEGV.
	lib.fn.setSignalHandlers(false)
	return lib, nil
}

func (f *functions) symbols() map[string]any {
	return map[string]any{
		"chdb_version":                     &f.version,
		"chdb_set_signal_handlers_enabled": &f.setSignalHandlers,
		"chdb_connect":                     &f.connect,
		"chdb_close_conn":                  &f.close,
		"chdb_query_with_params_n":         &f.query,
		"chdb_stream_query_with_params_n":  &f.streamQuery,
		"chdb_stream_fetch_result":         &f.streamFetch,
		"chdb_stream_cancel_query":         &f.streamCancel,
		"chdb_stream_insert_with_params_n": &f.insertBegin,
		"chdb_stream_append":               &f.insertAppend,
		"chdb_stream_done":                 &f.insertDone,
		"chdb_stream_cancel_insert":        &f.insertCancel,
		"chdb_stream_insert_error":         &f.insertError,
		"chdb_destroy_insert_stream":       &f.insertDestroy,
		"chdb_result_buffer":               &f.resultBuffer,
		"chdb_result_length":               &f.resultLength,
		"chdb_result_error":                &f.resultError,
		"chdb_result_rows_read":            &f.resultRowsRead,
		"chdb_result_bytes_read":           &f.resultBytesRead,
		"chdb_result_rows_written":         &f.resultRowsWritten,
		"chdb_destroy_query_result":        &f.resultDestroy,
		"chdb_classify_query_n":            &f.classify,
	}
}

// Path returns the file that was loaded.
func (l *Library) Path() string { return l.path }

// Version returns the version that the library names, such as "26.7.3".
func (l *Library) Version() string { return l.fn.version() }

// Connect opens a connection to the data directory; an empty one means memory only. All connections of a process must
// name the same directory. The first one starts the engine, which takes a second or so, later ones are cheap. Settings
// are `name=value` pairs that hold on this connection.
func (l *Library) Connect(dataDir string, settings ...string) (*Conn, error) {
	args := []string{"clickhouse"}
	if dataDir != "" {
		args = append(args, "--path="+dataDir)
	}
	for _, setting := range settings {
		args = append(args, "--"+setting)
	}
	raw := make([][]byte, len(args))
	argv := make([]unsafe.Pointer, len(args)+1)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	for i, arg := range args {
		raw[i] = append([]byte(arg), 0)
		pinner.Pin(&raw[i][0])
		argv[i] = unsafe.Pointer(&raw[i][0]) //nolint:gosec // pinned above
	}
	pinner.Pin(&argv[0])
	handle := l.fn.connect(int32(len(args)), unsafe.Pointer(&argv[0])) //nolint:gosec // pinned above
	if handle == nil {
		return nil, fmt.Errorf("connect to engine at %q: the library refused without a reason (is the directory in use or not writable?)", dataDir)
	}
	// The library hands out the address of its pointer; only the closing function wants that one.
	return &Conn{lib: l, owner: handle, handle: *(*unsafe.Pointer)(handle)}, nil
}
