package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// verdict compares a measured value with its bound.
type verdict string

const (
	ok     verdict = "ok"
	missed verdict = "MISSED"
	none   verdict = "" // a value beside, to compare with
)

// row is one line of the table.
type row struct {
	part     string
	what     string
	measured string
	bound    string
	verdict  verdict
}

// atMost makes a row of a value that has an upper bound.
func atMost(part, what string, value, bound float64, unit string) row {
	return judged(part, what, value, bound, unit, "≤", value <= bound)
}

// atLeast makes a row of a value that has a lower bound.
func atLeast(part, what string, value, bound float64, unit string) row {
	return judged(part, what, value, bound, unit, "≥", value >= bound)
}

func judged(part, what string, value, bound float64, unit, sign string, holds bool) row {
	r := row{part: part, what: what, measured: with(value, unit), bound: sign + " " + with(bound, unit), verdict: missed}
	if holds {
		r.verdict = ok
	}
	return r
}

// beside makes a row without a bound.
func beside(part, what string, value float64, unit string) row {
	return row{part: part, what: what, measured: with(value, unit)}
}

func with(value float64, unit string) string { return strings.TrimSpace(number(value) + " " + unit) }

// number has three digits that count, and no more.
func number(v float64) string {
	switch {
	case v == float64(int64(v)) && v < 1000:
		return strconv.FormatInt(int64(v), 10)
	case v >= 1000:
		return thousands(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func printTable(w io.Writer, rows []row) {
	fmt.Fprintln(w, machine())
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "part\twhat\tmeasured\tbound\tverdict")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.part, r.what, r.measured, r.bound, r.verdict)
	}
	_ = t.Flush()
}

func printMarkdown(w io.Writer, rows []row) {
	fmt.Fprintf(w, "%s\n\n| part | what | measured | bound | verdict |\n| --- | --- | --- | --- | --- |\n", machine())
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.part, r.what, r.measured, r.bound, r.verdict)
	}
}

// machine says what the numbers were measured on.
func machine() string {
	return fmt.Sprintf("%s, %s/%s, %d cores (%s), load of the last minute %s",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), load()) +
		", " + runtime.Version()
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// load is what other processes of the machine did in the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
