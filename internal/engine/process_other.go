//go:build unix && !linux

package engine

import "syscall"

// processAttributes keeps the terminal's interrupt from the child: the parent stops it in order.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
