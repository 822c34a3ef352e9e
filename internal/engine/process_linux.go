package engine

import "syscall"

// processAttributes makes the kernel end the child with its parent, should closing its input not reach it, and keeps
// the terminal's interrupt from it: the parent stops it in order.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
