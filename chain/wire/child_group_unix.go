//go:build unix

package wire

import "syscall"

// signalGroup signals the process group; a group that is gone is fine.
func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }
