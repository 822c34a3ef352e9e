package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// row is one suite in one mode.
type row struct {
	suite, mode string
	count       string // what it counted
	want        string
	note        string
	missed      bool
}

// printTable prints the rows and counts the missed ones.
func printTable(out io.Writer, rows []row) (missed int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "suite\tmode\tcount\twanted\t\t")
	for _, r := range rows {
		verdict := "ok"
		if r.missed {
			verdict = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.suite, r.mode, r.count, r.want, verdict, r.note)
	}
	_ = w.Flush()
	return missed
}
