//go:build unix

package wire

import "syscall"

// childAttributes puts the child in a process group of its own, so that what it starts ends with it.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals the process group; a group that is gone is fine.
func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }
