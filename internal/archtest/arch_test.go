// Package archtest proves the direction of imports by reading the files: sinks → audit → schemas ←
// chain, schemas ← bus, internal ← everyone, cmd → all.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/chaintrail/chaintrail/"

// mayImport lists, for each top-level folder, which others its non-test code may import.
var mayImport = map[string][]string{
	"schemas":  {},
	"internal": {"schemas"},
	"chain":    {"schemas", "internal"},
	"bus":      {"schemas", "internal"},
	"audit":    {"schemas", "internal"},
	"sinks":    {"schemas", "internal", "audit"},
	"deploy":   {},
	"cmd":      {"schemas", "internal", "chain", "bus", "audit", "sinks", "deploy"},
	"bench":    {"schemas", "internal", "chain", "bus", "audit", "sinks"},
}

func allowed(from, to string) bool {
	return from == to || slices.Contains(mayImport[from], to)
}

func top(path string) string {
	first, _, _ := strings.Cut(filepath.ToSlash(path), "/")
	return first
}

func TestImportsGoOneWay(t *testing.T) {
	root := "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == "testdata" || (strings.HasPrefix(name, ".") && name != "..") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if rest, ours := strings.CutPrefix(imported, module); ours && !allowed(top(rel), top(rest)) {
				t.Errorf("%s imports %s: %s may import only %v", rel, rest, top(rel), mayImport[top(rel)])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were read: the walk is broken", files)
	}
}

func TestRuleCanFail(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"chain", "bus", false},
		{"schemas", "chain", false},
		{"bus", "sinks", false},
		{"cmd", "chain", true},
		{"sinks", "audit", true},
	} {
		if got := allowed(c.from, c.to); got != c.want {
			t.Errorf("allowed(%s, %s) = %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestModuleFileNamesTheToolchain(t *testing.T) {
	data, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "GOTOOLCHAIN := go1.27.3") {
		t.Error("the Makefile must export GOTOOLCHAIN=go1.27.3")
	}
}

// Each direct dependency has its line of reason in docs/dependencies.md.
func TestDependenciesHaveReasons(t *testing.T) {
	reasons, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for line := range strings.Lines(string(module)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.Contains(fields[0], ".") || !strings.HasPrefix(fields[1], "v") || strings.Contains(line, "// indirect") {
			continue
		}
		direct++
		if !strings.Contains(string(reasons), "| "+fields[0]+" |") {
			t.Errorf("%s has no line in docs/dependencies.md", fields[0])
		}
	}
	if direct < 10 {
		t.Fatalf("only %d direct dependencies were read: the parser is broken", direct)
	}
}
