package main

import (
	"strings"
	"testing"
)

// A mode that fails, counts nothing or is not reported is a miss, and the table says so.
func TestMisses(t *testing.T) {
	t.Parallel()
	suite := suiteTest{suite: "s", modes: []string{"good", "bad", "empty", "silent"}}
	rows := reported(suite, "x.go:1: conformance: s | bad | 1 of 2\nx.go:1: conformance: s | good | 2 of 2\n x.go:1: conformance: s | empty | 0 of 0\n")
	var out strings.Builder
	if missed := printTable(&out, rows); missed != 3 {
		t.Errorf("%d missed, want 3:\n%s", missed, out.String())
	}
	for i, want := range []bool{false, true, true, true} {
		if rows[i].mode != suite.modes[i] || rows[i].missed != want {
			t.Errorf("row %d is %+v, want %s, missed %v", i, rows[i], suite.modes[i], want)
		}
	}
}
