package archtest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docs = "../../docs/"

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// testFiles is all test code of a package.
func testFiles(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob("../../" + dir + "/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no test files: %v", dir, err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(text(t, file))
	}
	return all.String()
}

// Every sample that is listed is there, and has an output, without which it would not be run.
func TestSamplesExist(t *testing.T) {
	t.Parallel()
	listed := regexp.MustCompile("\\| `([a-z/]+)` `(Example\\w*)` \\|").FindAllStringSubmatch(text(t, docs+"samples.md"), -1)
	if len(listed) < 10 {
		t.Fatalf("only %d samples were read", len(listed))
	}
	for _, m := range listed {
		_, body, found := strings.Cut(testFiles(t, m[1]), "\nfunc "+m[2]+"() {\n")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !found || !strings.Contains(body, "\t// Output:") {
			t.Errorf("%s has no %s with an output", m[1], m[2])
		}
	}
}

// All code that the page on authoring shows stands in test files as it is, so that it is compiled.
func TestAuthoringIsCompiled(t *testing.T) {
	t.Parallel()
	code := testFiles(t, "chain/interceptor") + testFiles(t, "chain/interceptor/kit")
	page := text(t, docs+"authoring.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < 8 {
		t.Fatalf("only %d blocks were read", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(code, "\n"+b[1]) {
			t.Errorf("no test file holds this block of docs/authoring.md:\n%s", b[1])
		}
	}
	file := text(t, "../../chain/interceptor/kit/testdata/guard.txtar")
	block := regexp.MustCompile("(?s)```txtar\n(.*?)```").FindStringSubmatch(page)
	if block == nil || !strings.Contains(file, block[1]) {
		t.Error("chain/interceptor/kit/testdata/guard.txtar does not hold the txtar of docs/authoring.md")
	}
	for _, bench := range regexp.MustCompile("`(Benchmark\\w+)[/`]").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(code, "func "+bench[1]+"(") {
			t.Errorf("docs/authoring.md names %s, which there is not", bench[1])
		}
	}
}

// Links between pages lead somewhere.
func TestLinksOfDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(docs + "*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	link := regexp.MustCompile(`\]\(([\w./-]+\.md)[)#]`)
	for _, page := range slices.Concat(pages, []string{"../../README.md"}) {
		for _, m := range link.FindAllSubmatch(bytes.TrimSpace([]byte(text(t, page))), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}
