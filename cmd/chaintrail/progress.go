package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how far long work has come.
type progress struct{ bar *progressbar.ProgressBar }

// progress begins to show work of total steps, after a moment so that short work stays silent. Where the talk does not
// go to a terminal it shows nothing. The caller ends it.
func (a *app) progress(text string, total uint64) progress {
	if !isTerminal(a.err) {
		return progress{}
	}
	return progress{progressbar.NewOptions64(int64(total), //nolint:gosec // stream positions
		progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(text),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())}
}

// set tells how many steps are done.
func (p progress) set(done uint64) {
	if p.bar != nil {
		_ = p.bar.Set64(int64(done)) //nolint:gosec // stream positions
	}
}

// end takes the bar away.
func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
