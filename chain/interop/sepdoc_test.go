package interop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSEPPage: each test and golden case that docs/sep-2624.md names exists, and each golden case is
// named there.
func TestSEPPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sep-2624.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(chain[a-z/]*)\\.((?:Test|Fuzz|Example)[A-Za-z0-9]*)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 50 {
		t.Errorf("only %d tests are named: the page is read wrongly", len(named))
	}
	for _, m := range named {
		if err := findTest(m[1], m[2]); err != nil {
			t.Error(err)
		}
	}
	golden := map[string]bool{}
	for _, m := range regexp.MustCompile("`golden:([a-z0-9-]+)`").FindAllStringSubmatch(string(page), -1) {
		golden[m[1]] = true
		if _, err := os.Stat("../chaintest/testdata/golden/" + m[1] + ".txtar"); err != nil {
			t.Errorf("golden case %s: %v", m[1], err)
		}
	}
	files, err := filepath.Glob("../chaintest/testdata/golden/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".txtar"); !golden[name] {
			t.Errorf("docs/sep-2624.md does not name the golden case %s", name)
		}
	}
	// Each row of the tables says what shows it.
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.HasPrefix(line, "| ") && !strings.Contains(line, "shown by") && !strings.Contains(line, "| ---") && !strings.Contains(cells[len(cells)-1], "`") {
			t.Errorf("nothing shows it: %s", line)
		}
	}
}

// findTest looks for a test function in the test files of a package.
func findTest(pkg, name string) error {
	files, err := filepath.Glob("../../" + pkg + "/*_test.go")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("package %s has no tests: %w", pkg, err)
	}
	declared := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if declared.Match(text) {
			return nil
		}
	}
	return fmt.Errorf("no %s in %s", name, pkg)
}
