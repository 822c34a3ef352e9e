//go:build unix && !linux

package wire

import "syscall"

// childAttributes puts the child in a process group of its own, so that what it starts ends with it.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
