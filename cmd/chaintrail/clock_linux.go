package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// staUnsync is set in the kernel's clock status while nothing disciplines the clock (adjtimex(2)).
const staUnsync = 0x40

// clockState says what the kernel knows of the clock: synchronized or not, and by how much it may be off.
func clockState() string {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return "unknown"
	}
	if state == unix.TIME_ERROR || t.Status&staUnsync != 0 {
		return "unsynchronized"
	}
	return fmt.Sprintf("synchronized, error %s", time.Duration(t.Esterror)*time.Microsecond)
}
