// Command schemagen writes the JSON Schemas of the published forms to schemas/event/v1.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/chaintrail/chaintrail/schemas"
)

func main() {
	if err := run("schemas/event/v1"); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := schemas.JSONSchemas()
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil { //nolint:gosec // G306: source files are public
			return err
		}
	}
	return nil
}
