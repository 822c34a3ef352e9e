package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
)

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		want []string
		err  string
	}{
		{line: "guard", want: []string{"guard"}},
		{line: "  ./guard\t--name x \n", want: []string{"./guard", "--name", "x"}},
		{line: `guard 'a b' "c \"d\" \n"`, want: []string{"guard", "a b", `c "d" \n`}},
		{line: `guard a\ b '' x"y"'z'`, want: []string{"guard", "a b", "", "xyz"}},
		{line: `guard 'back\slash'`, want: []string{"guard", `back\slash`}},
		{line: "guard 'open", err: "a quotation mark ' is not closed"},
		{line: `guard \`, err: "ends in a backslash"},
		{line: " ", err: "names no command"},
		{line: `"" x`, err: "names no command"},
	} {
		got, err := splitCommand(c.line)
		if text := errorText(err); text != c.err {
			t.Errorf("splitCommand(%q) fails with %q, want %q", c.line, text, c.err)
		}
		if diff := cmp.Diff(got, c.want); diff != "" {
			t.Errorf("splitCommand(%q) differs (-got +want):\n%s", c.line, diff)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is split is found again: quoting every word gives the same words.
func FuzzSplitCommand(f *testing.F) {
	f.Add(`a 'b c' "d\"" e\ f`)
	f.Add(`\`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitCommand(line)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := splitCommand(strings.Join(quoted, " "))
		if err != nil {
			t.Fatalf("the quoted form of %q does not split: %v", words, err)
		}
		if diff := cmp.Diff(again, words); diff != "" {
			t.Errorf("words differ (-got +want):\n%s", diff)
		}
	})
}

func TestFlaggedHosts(t *testing.T) {
	t.Parallel()
	a := &app{interceptors: []string{"./guard -x", "./guard", "https://h.example/mcp"}}
	cfg := config.Config{Interceptors: []config.Host{{Name: "guard", URL: "http://h/mcp"}}}
	if err := a.addFlagged(&cfg); err != nil {
		t.Fatal(err)
	}
	want := []config.Host{
		{Name: "guard", URL: "http://h/mcp"},
		{Name: "guard-2", Command: []string{"./guard", "-x"}},
		{Name: "guard-3", Command: []string{"./guard"}},
		{Name: "https---h-example-mcp", URL: "https://h.example/mcp"},
	}
	if diff := cmp.Diff(cfg.Interceptors, want); diff != "" {
		t.Errorf("servers differ (-got +want):\n%s", diff)
	}
}
