package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A JSON Schema is compiled in one place, which knows what must not reach the library.
func TestSchemasAreCompiledBehindTheGuard(t *testing.T) {
	t.Parallel()
	guard := filepath.Join("..", "..", "internal", "schema", "schema.go")
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), `"github.com/google/jsonschema-go/jsonschema"`) || !strings.Contains(string(text), ".Resolve(") {
			return nil
		}
		found++
		if path != guard {
			t.Errorf("%s resolves a JSON Schema: use internal/schema", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("nothing was found: the search is broken")
	}
}
