// Package chdb binds the few C functions of libchdb, the ClickHouse engine as a shared library, that the engine process
// needs. It uses purego, so that the program builds without a C compiler.
//
// The library holds one data directory per process and may fail hard (it is C++): load it only in a process of its own.
// Its handles are plain pointers; the types here make sure that each is released exactly once and that every byte that
// leaves them is a copy in Go memory or is passed to a callback before its owner is released.
package chdb
