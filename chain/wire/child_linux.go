package wire

import "syscall"

// childAttributes puts the child in a process group of its own, so that what it starts ends with it, and has it killed
// when we are: one that waits for something else than its input would stay for ever.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
